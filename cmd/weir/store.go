package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"weir/config"
	"weir/internal/tabular"
	"weir/store"
	"weir/store/sqlite"
)

type storeCommand struct {
	Check   storeCheckCommand   `cmd:"" help:"Check the data folder of a stopped weir, or a backup. Nothing is changed." example:"weir store check /var/backups/weir"`
	Salvage storeSalvageCommand `cmd:"" help:"Recover what is left of a damaged or lost store of a stopped weir. The old file is kept." example:"weir store salvage /var/lib/weir"`
}

// A dataFolder names the data folder of a weir that is stopped.
type dataFolder struct {
	Config string `short:"c" placeholder:"FILE" help:"The configuration of that weir, to find its data folder. Default: $$WEIR_CONFIG, else /etc/weir/weir.yaml."`
	JSON   bool   `name:"json" help:"Print the result as JSON."`
	Folder string `arg:"" optional:"" help:"The data folder. Default: as in the configuration, else /var/lib/weir."`
}

func (d *dataFolder) path() (string, error) {
	file := findConfig(d.Config)
	if d.Folder != "" || file == "" {
		return cmp.Or(d.Folder, config.DefaultData), nil
	}
	cfg, err := config.Load(file)
	if err != nil {
		return "", err
	}
	return cfg.WithDefaults().Data, nil
}

// offline adds what to do if a running weir uses the store.
func offline(err error) error {
	if errors.Is(err, store.ErrInUse) {
		return fmt.Errorf("%w (stop that weir first; or make a copy with weir backup, and check that)", err)
	}
	return err
}

type storeCheckCommand struct{ dataFolder }

func (c *storeCheckCommand) Run(t *terminal) error {
	folder, err := c.path()
	if err != nil {
		return err
	}
	ctx, release := interruptible()
	defer release()
	b := t.bar("check")
	found, err := sqlite.Check(ctx, folder, b.bytes)
	b.clear()
	if err != nil {
		return offline(err)
	}
	if c.JSON {
		err = t.json(struct {
			OK bool `json:"ok"`
			sqlite.Condition
		}{!found.Damaged(), found})
	} else {
		t.condition(&found, folder)
	}
	if err == nil && found.Damaged() {
		err = errTold
	}
	return err
}

func (t *terminal) condition(c *sqlite.Condition, folder string) {
	rows := table{heads: []string{"count", "what", "found"}}
	line := func(what, found string, bad bool, n int) {
		tint := tabular.Good
		if bad {
			tint = tabular.Bad
		}
		rows.row(number(n), text(what), cell{text: found, tint: tint})
	}
	switch {
	case c.Missing:
		line(sqlite.File, "missing", c.Damaged(), 0)
	case len(c.Damage) > 0:
		line(sqlite.File, "damaged", true, len(c.Damage))
	default:
		line(sqlite.File, fmt.Sprintf("ok, version %d, %s", c.Version, bytesOf(c.Bytes)), false, 1)
		line("mail that waits", "ok", false, c.Mails)
		line("texts of mail", "ok", false, c.Mails-c.Losses)
	}
	for _, more := range []struct {
		what, found string
		bad         bool
		n           int
	}{
		{"texts of mail", "missing, cut off or changed", true, c.Losses},
		{"texts in files", "of no mail", false, c.Unknown},
		{"texts in files", "set aside in " + store.AsideFolder, false, c.SetAside},
		{"texts in files", "not complete, never acknowledged", false, c.Partial},
	} {
		if more.n > 0 {
			line(more.what, more.found, more.bad, more.n)
		}
	}
	t.write(&rows)
	for _, l := range append(c.Damage, c.Lost...) {
		fmt.Fprintf(t.out, "  %s\n", printable(l))
	}
	switch {
	case len(c.Damage) > 0 || c.Missing && c.Damaged():
		fmt.Fprintf(t.err, "weir: %s is damaged: put a backup in its place, or run weir store salvage %s\n",
			printable(c.Path), printable(folder))
	case c.Losses > 0:
		fmt.Fprintf(t.err,
			"weir: texts of mail are damaged: if there is a backup, take them from its folder %s; if not, delete "+
				"those messages with weir queue delete\n", sqlite.MailFolder)
	case c.Unknown+c.SetAside > 0:
		fmt.Fprintf(t.err,
			"weir: there may be mail in those texts: weir store salvage %s holds it for you to look at\n",
			printable(folder))
	}
}

type storeSalvageCommand struct{ dataFolder }

func (c *storeSalvageCommand) Run(t *terminal) error {
	folder, err := c.path()
	if err != nil {
		return err
	}
	ctx, release := interruptible()
	defer release()
	b := t.bar("salvage")
	done, err := sqlite.Salvage(ctx, folder, time.Now(), b.bytes)
	b.clear()
	if ctx.Err() != nil {
		return errors.New("interrupted: " + sqlite.File + " is as it was")
	}
	if err != nil {
		return offline(err)
	}
	if c.JSON {
		return t.json(done)
	}
	t.salvaged(&done)
	return nil
}

func (t *terminal) salvaged(s *sqlite.Salvaged) {
	rows := table{heads: []string{"brought back", "rows", "in doubt", "spoilt"}}
	for _, k := range s.Tables {
		rows.row(text(k.Name), number(k.Rows), number(k.Doubted), number(k.Spoilt))
	}
	if len(s.Tables) > 0 {
		t.write(&rows)
	}
	switch {
	case s.Damaged != "":
		fmt.Fprintf(t.out, "%s is new; the old one is %s\n", printable(s.Path), printable(s.Damaged))
	case s.Rebuilt:
		fmt.Fprintf(t.out, "%s is new; there was none\n", printable(s.Path))
	default:
		fmt.Fprintf(t.out, "%s is whole\n", printable(s.Path))
	}
	for _, k := range []struct {
		n    int
		what string
	}{
		{s.Held, "%s came back by their texts in files, and are held: weir queue list --state held"},
		{s.Unknown, "%s without a known recipient are in " + printable(s.Folder)},
		{len(s.Lost) + s.MoreLost, "%s have lost their texts: weir audit lists their recipients"},
	} {
		if k.n > 0 {
			fmt.Fprintf(t.out, k.what+"\n", count(k.n, "message"))
		}
	}
	for _, k := range s.Tables {
		if k.Doubted > 0 {
			fmt.Fprintln(t.out,
				"in doubt: may have been deleted before; such recipients are held, and such users disabled")
			return
		}
	}
}

type backupCommand struct {
	target
	JSON   bool   `name:"json" help:"Print the result as JSON."`
	Folder string `arg:"" help:"The folder for the copy. It must be empty or not exist. weir's own user must be able to write to it."`
}

func (c *backupCommand) Validate() error {
	if c.Folder == "" {
		return errors.New("which folder?")
	}
	return nil
}

func (c *backupCommand) Run(t *terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	folder, err := filepath.Abs(c.Folder) // weir itself runs elsewhere
	if err != nil {
		return err
	}
	ctx, release := interruptible()
	defer release()
	b := t.bar("backup")
	err = client.Backup(ctx, folder, b.bytes)
	b.clear()
	if ctx.Err() != nil {
		return errors.New("interrupted: there is no backup")
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return t.json(map[string]string{"folder": folder})
	}
	_, err = fmt.Fprintf(t.out, "the backup is in %s\n", printable(folder))
	return err
}
