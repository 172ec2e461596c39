package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type manCommand struct {
	Folder string `arg:"" help:"The folder, which must exist."`
}

// Run writes weir.1, and a page for each command, such as weir-queue.1.
func (c *manCommand) Run(_ *terminal, parser *kong.Kong) error {
	for name, page := range manPages(parser.Model.Node) {
		if err := os.WriteFile(filepath.Join(c.Folder, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manPages returns the manual pages, by the names of their files.
func manPages(root *kong.Node) map[string]string {
	pages := map[string]string{"weir.1": manRoot(root)}
	for _, node := range root.Children {
		if !node.Hidden {
			pages["weir-"+node.Name+".1"] = manCommandPage(node)
		}
	}
	return pages
}

// A roff is a page on its way.
type roff struct{ strings.Builder }

// escape makes a text mean nothing but itself to roff. A hyphen is written as a minus, which can be searched and
// pasted.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func (r *roff) head(page, about string) {
	v := versionOf()
	day, _, _ := strings.Cut(v.Date, "T")
	fmt.Fprintf(r, ".TH %s 1 \"%s\" \"weir %s\" \"weir\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(escape(page)), day,
		escape(v.Version), escape(page), escape(about))
}

func (r *roff) section(title string)   { fmt.Fprintf(r, ".SH %s\n", title) }
func (r *roff) paragraph(text string)  { fmt.Fprintf(r, ".PP\n%s\n", escape(text)) }
func (r *roff) term(term, text string) { fmt.Fprintf(r, ".TP\n%s\n%s\n", term, escape(text)) }
func (r *roff) example(text string)    { fmt.Fprintf(r, ".PP\n.nf\n.RS\n%s\n.RE\n.fi\n", escape(text)) }

func (r *roff) flags(flags []*kong.Flag) {
	for _, f := range flags {
		name := ""
		if f.Short != 0 {
			name = `\fB` + escape("-"+string(f.Short)) + `\fR, `
		}
		name += `\fB` + escape("--"+f.Name) + `\fR`
		if !f.IsBool() {
			name += `=\fI` + escape(f.FormatPlaceHolder()) + `\fR`
		}
		r.term(name, f.Help)
	}
}

func manRoot(root *kong.Node) string {
	var r roff
	r.head("weir", "throttle requests, connections, packets and mail")
	r.section("SYNOPSIS")
	r.WriteString("\\fBweir\\fR \\fIcommand\\fR [\\fIflags\\fR]\n")
	r.section("DESCRIPTION")
	r.paragraph(root.Help)
	var titles []string
	for _, top := range root.Children {
		if title := top.Tag.Get("under"); title != "" && !slices.Contains(titles, title) {
			titles = append(titles, title)
		}
	}
	for _, title := range titles {
		fmt.Fprintf(&r, ".SS %s\n", title)
		for _, top := range root.Children {
			if top.Tag.Get("under") == title {
				r.term(`\fB`+escape("weir-"+top.Name)+`\fR(1)`, top.Help)
			}
		}
	}
	r.section("OPTIONS")
	r.flags(root.Flags)
	r.environment()
	r.WriteString(".SH EXIT STATUS\n0 on success, 1 on failure, 2 on wrong usage.\n")
	return r.String()
}

func (r *roff) environment() {
	r.section("ENVIRONMENT")
	r.term(`\fB`+configVariable+`\fR`, "The configuration, where no flag names one.")
	r.term(`\fBWEIR_CONTROL\fR`, "The control socket of the weir to speak to, where no flag names it.")
	r.section("FILES")
	r.term(`\fI`+defaultConfig+`\fR`, "The configuration, where neither a flag nor "+configVariable+" names one.")
	r.term(`\fI/var/lib/weir\fR`, "What weir keeps, unless the configuration says otherwise.")
}

// manCommandPage is the page of a command and of all below it.
func manCommandPage(node *kong.Node) string {
	var r roff
	r.head("weir-"+node.Name, strings.ToLower(node.Help[:1])+strings.TrimSuffix(node.Help[1:], "."))
	leaves := leavesOf(node)
	r.section("SYNOPSIS")
	for i, leaf := range leaves {
		if i > 0 {
			r.WriteString(".br\n")
		}
		fmt.Fprintf(&r, "\\fBweir\\fR %s\n", escape(leaf.Summary()))
	}
	r.section("DESCRIPTION")
	r.paragraph(node.Help)
	for _, leaf := range leaves {
		if leaf != node {
			fmt.Fprintf(&r, ".SH %s\n", strings.ToUpper("weir "+escape(leaf.Path())))
			r.paragraph(leaf.Help)
		} else if len(leaf.Positional)+len(leaf.Flags) > 0 {
			r.section("OPTIONS")
		}
		for _, arg := range leaf.Positional {
			r.term(`\fI`+escape(arg.Name)+`\fR`, arg.Help)
		}
		r.flags(leaf.Flags)
		if _, example, found := strings.Cut(leaf.Detail, "\n\n    "); found {
			r.paragraph("Example:")
			r.example(example)
		}
	}
	r.environment()
	r.section("SEE ALSO")
	r.WriteString("\\fBweir\\fR(1)\n")
	return r.String()
}
