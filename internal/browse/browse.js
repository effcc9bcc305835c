"use strict";
// Dragging over the histogram fills in a range of time, and shows it. The fields do the same from the keyboard.
(function () {
  var form = document.getElementById("select"), svg = form && form.querySelector("svg.times");
  if (!form) return;
  form.querySelectorAll("select").forEach(function (s) {
    s.addEventListener("change", function () {
      if (s.name === "pid" && form.tid) form.tid.value = "";
      if (s.name !== "diff" || s.value !== "time" || form.bfrom.value || form.bto.value) form.requestSubmit();
    });
  });
  if (!svg) return;
  var length = Number(svg.getAttribute("data-length")), box = svg.viewBox.baseVal, start = null, base = false;

  function at(e) {
    var r = svg.getBoundingClientRect();
    return Math.min(1, Math.max(0, (e.clientX - r.left) / r.width));
  }

  function show(x) {
    var mark = svg.querySelector(base ? ".other" : ".chosen"), from = Math.min(start, x), to = Math.max(start, x);
    mark.setAttribute("x", from * box.width);
    mark.setAttribute("width", (to - from) * box.width);
    form[base ? "bfrom" : "from"].value = (from * length).toFixed(6);
    form[base ? "bto" : "to"].value = (to * length).toFixed(6);
  }

  svg.addEventListener("pointerdown", function (e) {
    if (e.button !== 0) return;
    e.preventDefault();
    start = at(e);
    base = e.shiftKey;
    svg.setPointerCapture(e.pointerId);
  });
  svg.addEventListener("pointermove", function (e) { if (start !== null) show(at(e)); });
  svg.addEventListener("pointercancel", function () { start = null; });
  svg.addEventListener("pointerup", function (e) {
    if (start === null) return;
    var moved = Math.abs(at(e) - start) * svg.getBoundingClientRect().width > 2;
    if (moved) show(at(e));
    start = null;
    if (!moved) return;
    if (base) form.diff.value = "time";
    form.requestSubmit();
  });
})();
