"use strict";
// The page asks for itself again, and replaces its content. The focus stays on the element with the same ID. Nothing is replaced while the
// user selects text, or has paused the page, or does not see it.
(function () {
  var every = 10000, state = document.getElementById("state"), pause = document.getElementById("pause"), paused = false;

  function replace(text) {
    var main = document.querySelector("main"), fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
    if (!fresh) throw new Error("the answer is not the page of bperf");
    var focused = document.activeElement && main.contains(document.activeElement) ? document.activeElement.id : "";
    var scrolled = Array.from(main.querySelectorAll(".wide")).map(function (e) { return e.scrollLeft; });
    main.replaceWith(document.adoptNode(fresh));
    fresh.querySelectorAll(".wide").forEach(function (e, i) { e.scrollLeft = scrolled[i] || 0; });
    var again = focused && document.getElementById(focused);
    if (again) again.focus({ preventScroll: true });
  }

  function busy() {
    var selection = document.getSelection();
    return paused || document.hidden || selection && !selection.isCollapsed;
  }

  function update() {
    if (busy()) return;
    fetch(location.pathname, { signal: AbortSignal.timeout(every - 1000) }).then(function (answer) {
      if (!answer.ok) throw new Error("status " + answer.status);
      return answer.text();
    }).then(function (text) {
      if (busy()) return;
      replace(text);
      state.textContent = "";
    }).catch(function (error) { state.textContent = "These values are old: bperf does not answer (" + error.message + ")."; });
  }

  pause.hidden = false;
  pause.addEventListener("click", function () {
    paused = !paused;
    pause.textContent = paused ? "Continue" : "Pause";
    update();
  });
  document.addEventListener("visibilitychange", update);
  setInterval(update, every);
})();
