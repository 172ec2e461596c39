(() => {
	const e = document.activeElement;
	if (!e || e === document.body || e === document.documentElement) return null;
	const s = getComputedStyle(e);
	return {
		target: window.targetNames?.get(e) ?? '',
		name: `<${e.localName}> ${e.innerText?.slice(0, 40) ?? ''}`,
		visible: e.matches(':focus-visible') && s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0,
	};
})()
