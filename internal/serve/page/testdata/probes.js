"use strict";
// The clock and the requests of the page belong to the test: tick() runs what the page does at intervals, whenever a probe wants it. So
// probes wait for what they expect, and no time that passes on a slow machine changes anything.
var ticks = [], every = [], requests = 0, complaints = [];
window.setInterval = function (f, ms) { ticks.push(f); every.push(ms); };
window.fetch = (function (real) { return function () { requests++; return real.apply(window, arguments); }; })(window.fetch);
AbortSignal.timeout = function () { return new AbortController().signal; };
window.addEventListener("visibilitychange", function (e) { e.stopImmediatePropagation(); }, true); // the page would update itself
document.addEventListener("securitypolicyviolation", function (e) {
  complaints.push(e.violatedDirective + " " + e.blockedURI + " at " + e.sourceFile + ":" + e.lineNumber);
});
window.addEventListener("error", function (e) { complaints.push(String(e.message)); });
window.addEventListener("unhandledrejection", function (e) { complaints.push(String(e.reason)); });

function tick() { ticks.forEach(function (f) { f(); }); }

function until(holds) {
  return new Promise(function (resolve) {
    (function again() { if (holds()) resolve(); else setTimeout(again, 5); })();
  });
}

// probe runs a function when the page is loaded, and goes away with what it has seen. The policy of the page may not let it send that.
function probe(run) {
  var seen = [];
  until(function () { return document.readyState === "complete"; }).then(function () { return run(seen); }).catch(function (e) {
    complaints.push("probe: " + e);
  }).then(function () {
    window.name = JSON.stringify({ seen: seen, complaints: complaints, document: document.documentElement.outerHTML });
    location.href = "/probe/report";
  });
}

function nothing() {}

async function update(seen) {
  var before = document.querySelector("main");
  tick();
  await until(function () { return document.querySelector("main") !== before; });
  seen.push("updated");
}

async function updates(seen) {
  var link = document.getElementById("p7"), pause = document.getElementById("pause");
  function cpu() { // of the first container, without the title of the chart
    var cell = document.querySelector("td.n").cloneNode(true);
    cell.querySelectorAll("svg").forEach(function (e) { e.remove(); });
    return cell.textContent.trim();
  }
  function becomes(value) { return until(function () { return cpu() === value; }); }
  function requested() {
    var before = requests;
    tick();
    return requests === before ? "no request" : "a request";
  }
  seen.push("every " + every + " ms", "numbers " + getComputedStyle(document.querySelector("td.n")).textAlign);
  link.focus();
  tick();
  await becomes("20.0 %");
  seen.push(cpu() + ": focus " + document.activeElement.id + (document.activeElement === link ? "" : ", in a new element"));
  pause.click();
  seen.push("paused: " + requested());
  pause.click(); // updates at once
  await becomes("30.0 %");
  seen.push("continued: " + cpu());
  getSelection().selectAllChildren(document.querySelector("dl"));
  seen.push("selection: " + requested());
  getSelection().removeAllRanges();
  tick();
  await becomes("40.0 %");
  seen.push("after it: " + cpu());
}
