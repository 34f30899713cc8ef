// The colours of maps; the same as in overlay.py.
const STOPS = [[0, 0, 4], [31, 12, 72], [85, 15, 109], [136, 34, 106], [186, 54, 85], [227, 89, 51], [249, 140, 10], [249, 201, 50], [252, 255, 164]];

function heat(share) {
  const at = Math.min(share, 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, channel) => value + (STOPS[low + 1][channel] - value) * (at - low));
}
const HEAT = Array.from({ length: 256 }, (_, level) => heat(level / 255));

// Draw an image; a map, with grey levels for its values, in the colours above.
async function draw(canvas, address, colored) {
  const image = new Image();
  image.src = address;
  await image.decode();
  canvas.width = image.naturalWidth;
  canvas.height = image.naturalHeight;
  const context = canvas.getContext('2d', { willReadFrequently: colored });
  context.drawImage(image, 0, 0);
  if (!colored) return;
  const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < pixels.data.length; i += 4) pixels.data.set(HEAT[pixels.data[i]], i);
  context.putImageData(pixels, 0, 0);
}
