package web_test

import (
	"fmt"

	"attestd/internal/testenv"
)

// auditing is a script that gives what is wrong on the current page: what axe-core finds, and what
// it cannot decide of contrast. Of text in SVG it cannot, since it knows no background there: that
// is computed here, from the shapes that lie under the middle of the text.
const auditing = `(async () => {
	const at = [scrollX, scrollY];
	const describe = (rule, nodes) => rule.id + ': ' + rule.help + ' — ' + nodes.map((n) => n.html.slice(0, 160) + ' ' + (n.failureSummary ?? '').slice(0, 200) + ' ' + n.any.map((a) => a.data?.messageKey ?? '').join()).slice(0, 3).join(' | ');
	const { violations, incomplete } = await axe.run(document, { resultTypes: ['violations', 'incomplete'] });
	const wrong = violations.map((rule) => describe(rule, rule.nodes));

	const channels = (colour) => {
		const found = /^rgba?\(([^)]+)\)$/.exec(colour)?.[1].split(/[ ,/]+/).map(Number);
		return found ? { rgb: found.slice(0, 3), alpha: found[3] ?? 1 } : { rgb: [0, 0, 0], alpha: 0 };
	};
	const over = (top, below) => ({ rgb: top.rgb.map((c, i) => c * top.alpha + below.rgb[i] * (1 - top.alpha)), alpha: 1 });
	const luminance = ({ rgb }) => rgb.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const painted = (element) => {
		const style = getComputedStyle(element);
		const own = channels(element instanceof SVGElement && !(element instanceof SVGSVGElement) ? (element instanceof SVGTextElement ? 'none' : style.fill) : style.backgroundColor);
		return { ...own, alpha: own.alpha * Number(style.opacity) * Number(element instanceof SVGElement ? style.fillOpacity : 1) };
	};
	const contrast = (text) => {
		text.scrollIntoView({ block: 'center', inline: 'center' });
		const box = text.getBoundingClientRect();
		const under = document.elementsFromPoint(box.x + box.width / 2, box.y + box.height / 2).filter((e) => e !== text && !text.contains(e)).map(painted).filter(({ alpha }) => alpha > 0);
		const background = under.reduceRight((below, top) => over(top, below), { rgb: [255, 255, 255], alpha: 1 });
		const style = getComputedStyle(text);
		const [light, dark] = [luminance(over({ ...channels(style.fill), alpha: Number(style.opacity) * Number(style.fillOpacity) }, background)), luminance(background)].sort((a, b) => b - a);
		return (light + 0.05) / (dark + 0.05);
	};
	// An element that takes no clicks is found at a point all the same.
	const sheet = new CSSStyleSheet();
	sheet.replaceSync('svg, svg * { pointer-events: all !important }');
	document.adoptedStyleSheets = [sheet];
	for (const rule of incomplete.filter(({ id }) => id === 'color-contrast')) {
		const undecided = [];
		for (const node of rule.nodes) {
			const element = document.querySelector(node.target.at(-1));
			if (!(element instanceof SVGTextContentElement)) {
				// An element that is scrolled away, or lies under a fixed one, is checked where it
				// is visible.
				element.scrollIntoView({ block: 'center', inline: 'center' });
				const again = await axe.run(element, { runOnly: ['color-contrast'], resultTypes: ['violations', 'incomplete'] });
				wrong.push(...again.violations.map((rule) => describe(rule, rule.nodes)));
				if (again.incomplete.length) undecided.push(node);
			} else if (!(contrast(element) >= 4.5)) wrong.push('contrast ' + contrast(element).toFixed(2) + ': ' + node.html);
		}
		if (undecided.length) wrong.push('undecided ' + describe(rule, undecided));
	}
	document.adoptedStyleSheets = [];
	scrollTo(...at);
	return wrong;
})()`

// audit finds faults that make the page hard to read.
func (b *browser) audit(name string) {
	b.t.Helper()
	// With text scrolled under the bar at the top, axe cannot decide the contrast of what is in it.
	eval[bool](b, `(scrollTo(0, 0), true)`)
	b.settle()
	for _, what := range eval[[]string](b, auditing) {
		b.t.Errorf("%s: %s", name, what)
	}
}

// look is a width of the window and a colour scheme.
type look struct {
	width  int64
	scheme string
}

func (l look) String() string { return fmt.Sprintf("%d-%s", l.width, l.scheme) }

// looks are those in which a page is audited: all with -night, or where pictures are written.
// Otherwise each width is seen in one scheme, so that both schemes are seen.
func looks(widths ...int64) (all []look) {
	for i, width := range widths {
		for j, scheme := range []string{"light", "dark"} {
			if testenv.Night() || pictures() != "" || i%2 == j {
				all = append(all, look{width, scheme})
			}
		}
	}
	return all
}
