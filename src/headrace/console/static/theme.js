// Runs before the first paint, so that a page never flashes in the other theme.
{
  let chosen = null;
  try { chosen = localStorage.getItem("headrace-theme"); } catch { /* a browser that keeps nothing */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
