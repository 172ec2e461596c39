package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"weir/cmd/weir/roster"
	"weir/console"
)

type userImportCommand struct {
	target
	Format   string `enum:"auto,csv,ldif" default:"auto" help:"csv (with a heading), ldif, or auto: by the end of the file's name. Default: auto."`
	Name     string `placeholder:"COLUMN" help:"The column or the attribute with the name of the user. Default: name, or uid in LDIF."`
	Contact  string `placeholder:"COLUMN" help:"The one with the contact. Default: contact, or mail in LDIF."`
	Language string `placeholder:"COLUMN" help:"The one with the language. Default: language, or preferredLanguage in LDIF."`
	New      bool   `help:"Added accounts are new customers' accounts, which may bring a list (newcomers of a reach throttle). Default: they are old."`
	DryRun   bool   `help:"Show what would change and what is wrong, and change nothing."`
	JSON     bool   `name:"json" help:"Print the result as JSON."`
	File     string `arg:"" help:"The file. A single - is standard input."`
}

func (c *userImportCommand) Validate() error {
	if c.Format != "auto" {
		return nil
	}
	switch end := strings.ToLower(filepath.Ext(c.File)); end {
	case ".csv", ".ldif":
		c.Format = end[1:]
		return nil
	}
	return errors.New("is it CSV or LDIF? Write --format csv, or --format ldif")
}

// An importedUser is what an import does with one line.
type importedUser struct {
	Line int    `json:"line"`
	Name string `json:"name,omitempty"`
	What string `json:"what"` // added, changed or wrong
	Text string `json:"text,omitempty"`
}

// An importedList is what an import does, or would do.
type importedList struct {
	Dry     bool           `json:"dry,omitempty"`
	Added   int            `json:"added"`
	Changed int            `json:"changed"`
	Same    int            `json:"same"`
	Wrong   int            `json:"wrong"`
	Lines   []importedUser `json:"lines"` // what is the same is left out
}

func (c *userImportCommand) Run(t *terminal) error {
	list, err := c.read()
	if err != nil {
		return fmt.Errorf("%s is not imported: %w", c.File, err)
	}
	var all importedList
	err = ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (importedList, error) {
		all.Dry, all.Wrong, all.Lines = c.DryRun, list.Wrongs, []importedUser{}
		for _, w := range list.Wrong {
			all.Lines = append(all.Lines, importedUser{Line: w.Line, What: "wrong", Text: w.Why})
		}
		seen := map[string]int{}
		for i := range list.Entries {
			if err := c.one(ctx, client, &list.Entries[i], seen, &all); err != nil {
				return all, err
			}
		}
		return all, nil
	}, t.imported)
	if err == nil && all.Wrong > 0 {
		err = errTold
	}
	return err
}

func (c *userImportCommand) read() (*roster.List, error) {
	file := io.ReadCloser(os.Stdin)
	if c.File != "-" {
		var err error
		if file, err = os.Open(c.File); err != nil {
			return nil, err
		}
	}
	defer file.Close()
	columns := roster.Columns{Name: "name", Contact: "contact", Language: "language"}
	read := roster.ReadCSV
	if c.Format == "ldif" {
		columns, read = roster.Columns{Name: "uid", Contact: "mail", Language: "preferredLanguage"}, roster.ReadLDIF
	}
	for _, f := range []struct{ to, given *string }{{&columns.Name, &c.Name}, {&columns.Contact, &c.Contact},
		{&columns.Language, &c.Language}} {
		if *f.given != "" {
			*f.to = *f.given
		}
	}
	return read(file, columns)
}

// one adds or changes a user. What is wrong with the entry is noted; what is wrong with weir ends the import.
func (c *userImportCommand) one(ctx context.Context, client *console.Client, e *roster.Entry, seen map[string]int,
	all *importedList) error {
	note := func(what, text string) {
		all.Lines = append(all.Lines, importedUser{e.Line, e.Name, what, text})
	}
	u, err := console.UserShowCall.Ask(ctx, client, console.Name{Name: e.Name})
	known := err == nil && !u.Made.IsZero()
	var answer *console.Error
	if err != nil && !(errors.As(err, &answer) && answer.Code == http.StatusNotFound) {
		return wrongOr(err, all, note)
	}
	before, change := seen[e.Name], console.UserChange{Name: e.Name, Dry: c.DryRun}
	if err == nil {
		before = seen[u.Name]
	}
	var texts []string
	if known && e.Contact != "" && e.Contact != u.Contact {
		change.Contact, texts = &e.Contact, append(texts, fmt.Sprintf("contact %s instead of %s", e.Contact,
			orNone(u.Contact)))
	}
	if known && e.Language != "" && e.Language != u.Language {
		change.Language, texts = &e.Language, append(texts, "language "+e.Language)
	}
	switch {
	case before > 0:
		all.Wrong++
		note("wrong", fmt.Sprintf("the same user as in line %d", before))
		return nil
	case known && texts == nil:
		all.Same++
	case known:
		if u, err = console.UserSetCall.Ask(ctx, client, change); err != nil {
			return wrongOr(err, all, note)
		}
		all.Changed++
		note("changed", strings.Join(texts, ", "))
	default:
		if u, err = console.UserAddCall.Ask(ctx, client, console.NewUser{Name: e.Name, Contact: e.Contact,
			Language: e.Language,
			Old:      !c.New, Dry: c.DryRun}); err != nil {
			return wrongOr(err, all, note)
		}
		if before := seen[u.Name]; before > 0 { // with --dry-run nobody was added
			all.Wrong++
			note("wrong", fmt.Sprintf("the same user as in line %d", before))
			return nil
		}
		all.Added++
		text := "contact " + orNone(e.Contact)
		if u.Never != "" {
			text += "; no mail will ever come from there: " + u.Never
		}
		note("added", text)
	}
	seen[u.Name], seen[e.Name] = e.Line, e.Line
	return nil
}

// wrongOr notes what weir says about an entry, and returns other errors.
func wrongOr(err error, all *importedList, note func(what, text string)) error {
	var answer *console.Error
	if !errors.As(err, &answer) || answer.Code >= 500 || answer.Code == http.StatusForbidden {
		return err
	}
	all.Wrong++
	note("wrong", answer.Msg)
	return nil
}

func orNone(contact string) string {
	if contact == "" {
		return "none"
	}
	return contact
}

func (t *terminal) imported(all *importedList) {
	const most = 100 // of those that were added
	added := 0
	for _, l := range all.Lines {
		if l.What == "added" && l.Text != "contact none" && !strings.Contains(l.Text, ";") {
			if added++; added > most {
				continue
			}
		}
		fmt.Fprintf(t.out, "line %d: %s: %s\n", l.Line, strings.TrimSpace(printable(l.Name)+" "+l.What), printable(l.Text))
	}
	if added > most {
		fmt.Fprintf(t.out, "… and %d more were added\n", added-most)
	}
	would := ""
	if all.Dry {
		would = "would be "
	}
	fmt.Fprintf(t.out, "%sadded: %d, changed: %d, the same: %d, wrong: %d\n", would, all.Added, all.Changed, all.Same,
		all.Wrong)
}
