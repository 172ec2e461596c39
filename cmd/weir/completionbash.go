package main

import (
	"fmt"
	"strings"
)

// bashScript completes in bash, without the package bash-completion too.
func bashScript(all []completed) string {
	var b strings.Builder
	b.WriteString(`# bash completion for weir, made by "weir completion bash".
_weir() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} path= words= files= i
	# bash takes --flag=value for three words
	if [[ $cur == = ]]; then
		cur=
	elif [[ $prev == = ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$path|${COMP_WORDS[i]}" in
`)
	for _, step := range descents(all) {
		fmt.Fprintf(&b, "\t\t%s) path=%s ;;\n", shellQuote(step[0]), shellQuote(step[1]))
	}
	b.WriteString("\t\tesac\n\tdone\n\tcase \"$path|$prev\" in\n")
	for _, c := range all {
		for _, f := range c.flags {
			if !f.takes {
				continue
			}
			names := shellQuote(c.path + "|" + f.long)
			if f.short != "" {
				names += "|" + shellQuote(c.path+"|"+f.short)
			}
			fmt.Fprintf(&b, "\t%s) %s ;;\n", names, bashReply(f.value.words, f.value.files))
		}
	}
	b.WriteString("\t*)\n\t\tcase \"$path\" in\n")
	for _, c := range all {
		var words []string
		for _, w := range c.below {
			words = append(words, w.name)
		}
		words = append(words, c.args.words...)
		for _, f := range c.flags {
			words = append(words, f.long)
		}
		fmt.Fprintf(&b, "\t\t%s) %s ;;\n", shellQuote(c.path), bashReply(words, c.args.files))
	}
	b.WriteString(`		esac
		;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
	if [[ $files && $cur != -* ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$cur")
	fi
}
complete -F _weir weir
`)
	return b.String()
}

func bashReply(words []string, files bool) string {
	reply := "words=" + shellQuote(strings.Join(words, " "))
	if files {
		reply += " files=yes"
	}
	return reply
}
