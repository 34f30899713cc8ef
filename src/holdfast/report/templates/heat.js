// The colours of maps; the same as in overlay.py.
const STOPS = [[0, 0, 4], [31, 12, 72], [85, 15, 109], [136, 34, 106], [186, 54, 85], [227, 89, 51], [249, 140, 10], [249, 201, 50], [252, 255, 164]];

function heat(share) {
  const at = Math.min(share, 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, channel) => value + (STOPS[low + 1][channel] - value) * (at - low));
}
const HEAT = Array.from({ length: 256 }, (_, level) => heat(level / 255));
