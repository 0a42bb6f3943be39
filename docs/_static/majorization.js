// Majorization at work, in one parameter: F, its bound and Newton's parabola at an anchor that can be dragged.
(() => {
  const box = document.getElementById("majorization");
  if (!box) return;
  const { features, observed, ridge, anchors, curvature } = majorizationData;
  const [WIDTH, HEIGHT, LEFT, RIGHT, LOW, HIGH] = [640, 320, -8, 8, 0, 16];
  const START = -4.6;

  const moments = (theta) => {
    const top = Math.max(...features.map((f) => f * theta));
    const h = features.map((f) => Math.exp(f * theta - top));
    const Z = h.reduce((a, b) => a + b);
    const mean = h.reduce((a, each, k) => a + each * features[k], 0) / Z;
    const square = h.reduce((a, each, k) => a + each * features[k] ** 2, 0) / Z;
    return { logZ: top + Math.log(Z), mean, variance: square - mean ** 2 };
  };
  const F = (theta) => moments(theta).logZ - features[observed] * theta + 0.5 * ridge * theta ** 2;
  const slope = (theta) => moments(theta).mean - features[observed] + ridge * theta;
  const sigma = (theta) => {
    const place = ((theta - anchors[0]) / (anchors[anchors.length - 1] - anchors[0])) * (anchors.length - 1);
    const k = Math.max(0, Math.min(anchors.length - 2, Math.floor(place)));
    return curvature[k] + (curvature[k + 1] - curvature[k]) * (place - k);
  };

  const x = (theta) => ((theta - LEFT) / (RIGHT - LEFT)) * WIDTH;
  const y = (value) => HEIGHT - ((value - LOW) / (HIGH - LOW)) * HEIGHT;
  const line = (f) => {
    const points = [];
    for (let k = 0; k <= 320; k++) {
      const theta = LEFT + ((RIGHT - LEFT) * k) / 320;
      points.push(`${x(theta).toFixed(1)},${Math.max(-2000, Math.min(2000, y(f(theta)))).toFixed(1)}`);
    }
    return points.join(" ");
  };

  box.innerHTML = `
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="F, its quadratic bound and Newton's parabola at an anchor">
      <polyline class="newton"/><polyline class="bound"/><polyline class="objective"/>
      <line class="step"/><circle class="anchor" r="7"/><circle class="landing" r="5"/>
    </svg>
    <p class="legend"><span class="objective">F(θ)</span> <span class="bound">quadratic bound</span>
      <span class="newton">second-order Taylor (Newton)</span></p>
    <label>anchor θ̃ <input type="range" min="${LEFT}" max="${RIGHT}" step="0.05" value="${START}"></label>
    <p class="buttons"><button type="button" data-go="bound">step to the bound's minimum</button>
      <button type="button" data-go="newton">Newton's step</button>
      <button type="button" data-go="start">start again</button></p>
    <p class="said" aria-live="polite"></p>`;
  const svg = (name) => box.querySelector(`svg .${name}`);
  const slider = box.querySelector("input");
  let [theta, steps] = [START, 0];

  const parabola = (c) => (t) => F(theta) + slope(theta) * (t - theta) + 0.5 * c * (t - theta) ** 2;
  const landing = (kind) => theta - slope(theta) / (ridge + (kind === "bound" ? sigma(theta) : moments(theta).variance));
  const place = (circle, t, value) => { circle.setAttribute("cx", x(t)); circle.setAttribute("cy", y(value)); };

  const draw = (story) => {
    const bound = parabola(sigma(theta) + ridge);
    const next = landing("bound");
    svg("objective").setAttribute("points", line(F));
    svg("bound").setAttribute("points", line(bound));
    svg("newton").setAttribute("points", line(parabola(moments(theta).variance + ridge)));
    place(svg("anchor"), theta, F(theta));
    place(svg("landing"), next, bound(next));
    const drop = svg("step");
    [["x1", x(next)], ["x2", x(next)], ["y1", y(bound(next))], ["y2", y(F(next))]].forEach(([k, v]) => drop.setAttribute(k, v));
    const newton = landing("newton");
    box.querySelector(".said").textContent = `${story} F(${theta.toFixed(2)}) = ${F(theta).toFixed(4)}. ` +
      `The bound's step would lead to ${F(next).toFixed(4)}, Newton's to ${F(newton).toFixed(4)}` +
      (F(newton) > F(theta) + 1e-9 ? ", which is higher." : ".");
    slider.value = theta;
  };
  slider.addEventListener("input", () => { [theta, steps] = [Number(slider.value), 0]; draw(""); });
  box.querySelectorAll("button").forEach((button) => button.addEventListener("click", () => {
    const before = F(theta);
    if (button.dataset.go === "start") [theta, steps] = [START, 0];
    else [theta, steps] = [landing(button.dataset.go), steps + 1];
    draw(steps ? `Step ${steps}: F went from ${before.toFixed(4)} to ${F(theta).toFixed(4)}.` : "");
  }));
  draw("");
})();
