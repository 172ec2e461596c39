package main

import (
	"fmt"
	"strings"
)

// zshScript completes in zsh: a function for each command, in a file _weir of a folder in fpath.
func zshScript(all []completed) string {
	var b strings.Builder
	b.WriteString("#compdef weir\n# zsh completion for weir, made by \"weir completion zsh\".\n")
	for _, c := range all {
		fmt.Fprintf(&b, "\n%s() {\n\tlocal curcontext=\"$curcontext\" state line ret=1\n\ttypeset -A opt_args\n", zshName(c.path))
		b.WriteString("\t_arguments -C -s")
		for _, f := range c.flags {
			b.WriteString(" \\\n\t\t" + zshFlag(f))
		}
		switch {
		case len(c.below) > 0:
			b.WriteString(" \\\n\t\t'1: :->command' \\\n\t\t'*:: :->below'")
		case c.args.any:
			b.WriteString(" \\\n\t\t" + shellQuote("*: :"+zshAction(c.args)))
		}
		b.WriteString(" && ret=0\n")
		if len(c.below) > 0 {
			b.WriteString("\tcase $state in\n\tcommand)\n\t\tlocal -a commands=(\n")
			for _, w := range c.below {
				fmt.Fprintf(&b, "\t\t\t%s\n", shellQuote(w.name+":"+strings.ReplaceAll(w.help, ":", `\:`)))
			}
			b.WriteString("\t\t)\n\t\t_describe -t commands command commands && ret=0\n\t\t;;\n")
			b.WriteString("\tbelow)\n\t\tcase $words[1] in\n")
			for _, w := range c.below {
				fmt.Fprintf(&b, "\t\t%s) %s && ret=0 ;;\n", w.name, zshName(strings.TrimSpace(c.path+" "+w.name)))
			}
			b.WriteString("\t\tesac\n\t\t;;\n\tesac\n")
		}
		b.WriteString("\treturn ret\n}\n")
	}
	// The file is either loaded as the function _weir, or read by source.
	b.WriteString("\nif [[ $funcstack[1] == _weir ]]; then\n\t_weir \"$@\"\nelse\n\tcompdef _weir weir\nfi\n")
	return b.String()
}

func zshName(path string) string {
	return strings.TrimSuffix("_weir_"+strings.ReplaceAll(path, " ", "_"), "_")
}

// zshFlag is a flag as _arguments wants it: '(-c --config)'{-c,--config=}'[help]: :action'.
func zshFlag(f completedFlag) string {
	help := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(f.help)
	long, tail := f.long, "["+help+"]"
	if f.takes {
		long += "="
		tail += ": :" + zshAction(f.value)
	}
	if f.short == "" {
		return shellQuote(long + tail)
	}
	return fmt.Sprintf("'(%s %s)'{%s,%s}%s", f.short, f.long, f.short, long, shellQuote(tail))
}

func zshAction(v completedValue) string {
	switch {
	case len(v.words) > 0:
		return "(" + strings.Join(v.words, " ") + ")"
	case v.files:
		return "_files"
	}
	return " "
}
