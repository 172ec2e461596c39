(() => {
	// A page that keeps itself up to date would remove an attribute, so names are kept beside it.
	const names = new WeakMap();
	const targets = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
		.filter(e => e.checkVisibility({visibilityProperty: true}));
	targets.forEach((e, i) => names.set(e, '' + i));

	// What has the focus now.
	const look = () => {
		const e = document.activeElement;
		if (!e || e === document.body || e === document.documentElement) return null;
		const s = getComputedStyle(e);
		return {
			target: names.get(e) ?? '',
			name: `<${e.localName}> ${e.innerText?.slice(0, 40) ?? ''}`,
			visible: e.matches(':focus-visible') && s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0,
		};
	};
	// When Tab is pressed, the focus is still where the press before has brought it.
	let walk = [];
	addEventListener('keydown', e => { if (e.key === 'Tab') walk.push(look()) }, true);
	window.takeWalk = () => {
		const taken = [...walk.slice(1), look()];
		walk = [];
		return taken;
	};
	return targets.map(e => names.get(e));
})()
