package main

import (
	"errors"
	"fmt"
	"path/filepath"
)

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
