(function () {
  "use strict";
  var graphs = [];

  // The name of a frame in this number of letters: its end stays. data-c has the places where it can be cut.
  function shorten(f, letters) {
    var name = Array.from(f.name), starts = f.cuts ? f.cuts.split(" ").map(Number) : [], end = f.cuts ? starts.pop() : name.length, start = 0;
    if (name.length <= letters) return f.name;
    if (letters < 3) return "";
    starts.unshift(0);
    for (var i = 0; i < starts.length; i++) {
      start = starts[i];
      if (end - start <= letters) return name.slice(start, end).join("");
    }
    return ".." + name.slice(Math.max(start, end - letters + 2), end).join("");
  }

  function Graph(svg) {
    var frames = [];
    svg.querySelectorAll(".f").forEach(function (g) {
      var text = g.querySelector("text");
      frames.push({
        g: g, rect: g.querySelector("rect"), text: text, name: text.getAttribute("data-n"), cuts: text.getAttribute("data-c"),
        x: Number(g.getAttribute("data-x")), w: Number(g.getAttribute("data-w")), d: Number(g.getAttribute("data-d"))
      });
    });
    var view = frames[0], epsilon = 1e-6;

    function draw() {
      var width = svg.getBoundingClientRect().width || 1200;
      frames.forEach(function (f) {
        var around = f.d < view.d && f.x <= view.x + epsilon && f.x + f.w >= view.x + view.w - epsilon;
        var inside = f.d >= view.d && f.x >= view.x - epsilon && f.x + f.w <= view.x + view.w + epsilon;
        f.g.classList.toggle("hidden", !around && !inside);
        f.g.classList.toggle("above", around);
        if (!around && !inside) return;
        var x = around ? 0 : (f.x - view.x) / view.w, w = around ? 1 : f.w / view.w;
        f.rect.setAttribute("x", 100 * x + "%");
        f.rect.setAttribute("width", 100 * w + "%");
        f.text.setAttribute("x", 100 * x + "%");
        f.text.textContent = shorten(f, Math.floor((w * width - 6) / 7.3));
      });
    }

    function zoom(f) { view = f; draw(); }
    frames.forEach(function (f) {
      f.g.addEventListener("click", function () { zoom(f); });
      f.g.addEventListener("keydown", function (e) { if (e.key === "Enter") zoom(f); });
    });
    this.svg = svg;
    this.draw = draw;
    this.reset = function () { zoom(frames[0]); };

    // The share of what matches: a match below a match is in it already.
    this.search = function (pattern) {
      var share = 0, end = [], any = false;
      frames.forEach(function (f) {
        var match = pattern !== null && pattern.test(f.name);
        f.g.classList.toggle("match", match);
        if (!match) return;
        any = true;
        end.push(f);
      });
      end.sort(function (a, b) { return a.x - b.x || a.d - b.d; });
      var last = -1;
      end.forEach(function (f) {
        if (f.x + f.w <= last + epsilon) return;
        share += f.x + f.w - Math.max(f.x, last);
        last = f.x + f.w;
      });
      return any ? "Matched: " + (100 * share).toFixed(2) + "%" : pattern === null ? "" : "Nothing matched";
    };
  }

  function search(text) {
    var pattern = null;
    if (text) {
      try { pattern = new RegExp(text); } catch (e) { pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")); }
    }
    graphs.forEach(function (g) {
      var matched = g.svg.parentNode.querySelector("[data-is=matched]");
      if (matched) matched.textContent = g.search(pattern);
    });
  }

  function start() {
    document.querySelectorAll("svg.flame").forEach(function (svg) { graphs.push(new Graph(svg)); });
    var doing = {
      reset: function () { graphs.forEach(function (g) { g.reset(); }); },
      search: function () { var text = prompt("Search for a regular expression"); if (text !== null) search(text); }
    };
    document.querySelectorAll("[data-do]").forEach(function (button) {
      var act = doing[button.getAttribute("data-do")];
      button.addEventListener("click", act);
      if (button.namespaceURI !== "http://www.w3.org/1999/xhtml") button.addEventListener("keydown", function (e) { if (e.key === "Enter") act(); });
    });
    document.querySelectorAll("[data-is=search]").forEach(function (input) {
      input.addEventListener("input", function () { search(input.value); });
    });
    document.querySelectorAll("[data-is=event]").forEach(function (select) {
      function show() {
        document.querySelectorAll("[data-event]").forEach(function (part) { part.hidden = part.getAttribute("data-event") !== select.value; });
        graphs.forEach(function (g) { g.draw(); });
      }
      select.addEventListener("change", show);
      show();
    });
    document.addEventListener("keydown", function (e) { if (e.key === "Escape") doing.reset(); });
    window.addEventListener("resize", function () { graphs.forEach(function (g) { g.draw(); }); });
    graphs.forEach(function (g) { g.draw(); });
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();
