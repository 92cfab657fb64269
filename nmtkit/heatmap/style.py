"""What the page's style sheet and script say; the script only adds comfort to a readable page."""

CELL = 18  # pixels

STYLE = """
:root { --first: #0047c2; --second: #d25b00; --cell: 18px }
body { font: 15px/1.45 system-ui, "Noto Sans", "Noto Sans CJK JP", sans-serif; color: #1a1a1a;
  background: #fff; margin: 0 auto; padding: 1rem; max-width: 80rem }
h1 { font-size: 1.5rem; margin: 0 0 .5rem }
h2 { font-size: 1rem; margin: 0 }
h2 a { color: inherit; text-decoration: none }
p { margin: .15rem 0; overflow-wrap: anywhere }
ul { display: flex; flex-wrap: wrap; gap: .3rem 1.5rem; list-style: none; margin: .6rem 0;
  padding: .5rem .7rem; border: 1px solid #bbb }
li { display: flex; align-items: center; gap: .5rem }
input { font: inherit; width: 100%; max-width: 22rem; box-sizing: border-box }
section { border-top: 1px solid #bbb; padding: .8rem 0; break-inside: avoid;
  content-visibility: auto; contain-intrinsic-size: auto 30rem }
.counts { color: #444; font-size: .9rem }
.scroll { overflow-x: auto; padding: .5rem 7rem .3rem 0 }
.grid { display: grid; grid-template-columns: max-content max-content; width: max-content }
.source, .target { display: grid; font-size: 13px; line-height: var(--cell); white-space: nowrap }
.source { grid-column: 2; grid-auto-flow: column; grid-auto-columns: var(--cell);
  align-items: end; padding-bottom: 3px }
.target { grid-auto-rows: var(--cell); justify-items: end; padding-right: 2px }
.source bdi { writing-mode: vertical-rl; text-orientation: sideways; width: var(--cell);
  transform: rotate(30deg) translateY(-100%) rotate(180deg); transform-origin: 50% 100% }
.grid bdi { max-inline-size: 13em; padding-inline: 4px; text-overflow: ellipsis }
.source bdi { overflow-y: clip }
.target bdi { overflow-x: clip }
.grid bdi.here { background: #ffe680 }
svg { display: block; overflow: visible; print-color-adjust: exact }
.shade { stroke-width: 1; shape-rendering: crispEdges }
.sure, .possible { fill: none; stroke: #000; stroke-width: .1 }
.possible { stroke-dasharray: .17 .13 }
path:is(.alone, .first, .second) { stroke: #fff; stroke-width: .14; paint-order: stroke }
.alone, .first { fill: var(--first) }
.second { fill: var(--second) }
@media print { form { display: none } section { content-visibility: visible }
  .scroll { overflow: visible } }
"""

# Finding: a number goes to that pair, anything else leaves the pairs that contain it. Pointing at a
# cell lights up its two words.
SCRIPT = """
const form = document.querySelector('form'), box = form.find;
const pairs = [...document.querySelectorAll('section')];
form.hidden = false;
form.onsubmit = event => event.preventDefault();
box.oninput = () => {
  const wanted = box.value.trim().toLowerCase(), number = /^[0-9]+$/.test(wanted);
  for (const pair of pairs)
    pair.hidden = !number && !pair.textContent.toLowerCase().includes(wanted);
  if (number) document.getElementById(wanted)?.scrollIntoView();
};
document.onpointermove = event => {
  for (const word of document.querySelectorAll('.here')) word.classList.remove('here');
  const grid = event.target.closest('.grid > svg');
  if (!grid) return;
  const edge = grid.getBoundingClientRect(), cell = edge.height / grid.viewBox.baseVal.height;
  const sides = grid.parentNode.querySelectorAll('.source, .target');
  sides[0].children[Math.floor((event.clientX - edge.left) / cell)]?.classList.add('here');
  sides[1].children[Math.floor((event.clientY - edge.top) / cell)]?.classList.add('here');
};
"""
