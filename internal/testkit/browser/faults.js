(() => {
	const faults = [];
	const root = document.documentElement;

	if (!root.lang) faults.push('<html> has no lang');
	if (!document.title.trim()) faults.push('no title');
	const headings = document.querySelectorAll('h1').length;
	if (headings !== 1) faults.push(`${headings} h1 instead of one`);
	if (document.compatMode !== 'CSS1Compat') faults.push('quirks mode: no doctype');

	if (root.clientWidth > screen.width) faults.push(`laid out ${root.clientWidth} wide for a screen of ${screen.width}: no viewport?`);
	if (root.scrollWidth > root.clientWidth) faults.push(`${root.scrollWidth} wide on a screen of ${root.clientWidth}`);

	for (const e of document.body.querySelectorAll('*')) {
		if (e.scrollWidth > e.clientWidth && e.clientWidth > 0 && getComputedStyle(e).overflowX !== 'visible') {
			faults.push(`<${e.localName}> cuts off what it holds: ${e.scrollWidth} wide in ${e.clientWidth}`);
		}
	}

	// Colors are [red, green, blue, alpha], premultiplied, each from 0 to 1. A canvas understands every notation there is.
	const pixel = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
	const color = css => {
		pixel.clearRect(0, 0, 1, 1);
		pixel.fillStyle = css;
		pixel.fillRect(0, 0, 1, 1);
		const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
		return [r * a / 65025, g * a / 65025, b * a / 65025, a / 255];
	};
	const over = (top, bottom) => top.map((v, i) => v + bottom[i] * (1 - top[3]));
	const luminance = c => {
		const [r, g, b] = c.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};

	// What shows where nothing is painted: the canvas of the scheme in use.
	const probe = document.createElement('i');
	probe.style.backgroundColor = 'Canvas';
	root.append(probe);
	const canvas = color(getComputedStyle(probe).backgroundColor);
	probe.remove();

	const seen = new Set();
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode());) {
		const parent = node.parentElement;
		if (!node.data.trim() || seen.has(parent) || !parent.checkVisibility({visibilityProperty: true})) continue;
		seen.add(parent);
		// From the inside out: what is under the text, with it and without it.
		let ink = color(getComputedStyle(parent).color), paper = [0, 0, 0, 0], image = false;
		for (let e = parent; e; e = e.parentElement) {
			const s = getComputedStyle(e), background = color(s.backgroundColor), opacity = parseFloat(s.opacity);
			image ||= s.backgroundImage !== 'none';
			ink = over(ink, background).map(v => v * opacity);
			paper = over(paper, background).map(v => v * opacity);
		}
		const text = node.data.trim().slice(0, 40);
		if (image) {
			faults.push(`"${text}" stands on an image: nobody knows its contrast`);
			continue;
		}
		const [l1, l2] = [luminance(over(ink, canvas)), luminance(over(paper, canvas))];
		const ratio = (Math.max(l1, l2) + 0.05) / (Math.min(l1, l2) + 0.05);
		if (ratio < 4.5) faults.push(`"${text}" has a contrast of ${ratio.toFixed(2)}, less than 4.5`);
	}
	return faults;
})()
