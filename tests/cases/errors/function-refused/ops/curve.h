double curve(double step, double max_steps) {
  const auto share = step / max_steps;
  return 1.0 - shared;
}
