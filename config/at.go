package config

import (
	"strings"

	"weir"
	"weir/internal/yamltree"
)

// At puts mistakes that were found after a file was loaded at their lines. The file is read again; if it cannot be,
// they have no lines.
func At(path string, all []*weir.FieldError) (errs Errors) {
	data, err := readFile(path)
	text := strings.TrimPrefix(string(data), "\uFEFF")
	var root *yamltree.Node
	if err == nil && len(data) <= MaxFile && yamltree.Readable(text) == nil {
		root, _, _ = sections(text)
	}
	if root == nil {
		for _, fe := range all {
			errs = append(errs, &Error{File: path, Msg: fe.Error()})
		}
		return errs
	}
	for _, fe := range all {
		p := locate(root, fe.Path)
		if fe.Path == "" || len(p.nodes) == 1 { // it is about no line
			errs = append(errs, &Error{File: path, Msg: fe.Error()})
			continue
		}
		s := source{name: path, lines: strings.Split(text, "\n")}
		errs = append(errs, s.annotate(Errors{mistake(p.at, fe.Msg, fe.Hint)})...)
	}
	return errs
}
