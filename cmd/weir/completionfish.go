package main

import (
	"fmt"
	"strings"
)

// fishScript completes in fish.
func fishScript(all []completed) string {
	var b strings.Builder
	b.WriteString(`# fish completion for weir, made by "weir completion fish".
function __weir_at --description 'whether these are the commands typed so far'
    set -l path
    for word in (commandline -opc)[2..]
        switch "$path|$word"
`)
	for _, step := range descents(all) {
		fmt.Fprintf(&b, "            case %s\n                set path %s\n", fishQuote(step[0]), fishQuote(step[1]))
	}
	b.WriteString("        end\n    end\n    test \"$path\" = \"$argv\"\nend\n\ncomplete -c weir -f\n")
	for _, c := range all {
		at := "complete -c weir -n " + fishQuote("__weir_at "+c.path)
		for _, w := range c.below {
			fmt.Fprintf(&b, "%s -a %s -d %s\n", at, w.name, fishQuote(w.help))
		}
		if len(c.args.words) > 0 {
			fmt.Fprintf(&b, "%s -a %s\n", at, fishQuote(strings.Join(c.args.words, " ")))
		}
		if c.args.files {
			b.WriteString(at + " -F\n")
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, "%s -l %s", at, strings.TrimPrefix(f.long, "--"))
			if f.short != "" {
				b.WriteString(" -s " + strings.TrimPrefix(f.short, "-"))
			}
			switch {
			case len(f.value.words) > 0:
				b.WriteString(" -x -a " + fishQuote(strings.Join(f.value.words, " ")))
			case f.takes && f.value.files:
				b.WriteString(" -r -F")
			case f.takes:
				b.WriteString(" -x")
			}
			b.WriteString(" -d " + fishQuote(f.help) + "\n")
		}
	}
	return b.String()
}

func fishQuote(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}
