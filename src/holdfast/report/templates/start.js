if (DATA.pictures.length) startPictures();
if (ROWS.n) startRows();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
