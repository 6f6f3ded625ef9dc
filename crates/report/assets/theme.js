// Before anything is drawn: the theme asked for by `?theme=`, else the one remembered, else the system's.
(function () {
  "use strict";
  const root = document.documentElement;
  let theme = new URLSearchParams(location.search).get("theme");
  // Storage may be closed to files and in private windows; the page does without.
  try { theme = theme || localStorage.getItem("antiphon-theme"); } catch { /* not remembered */ }
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  root.classList.add("scripted");
})();
