package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"weir/console"
)

type userSetCommand struct {
	userFlags
	Changes []string `arg:"" name:"change" help:"contact=ADDRESS, language=de (empty: the usual one), senders=A,B (senders+=C and senders-=A), disabled=true, or a personal limit, as in the configuration of the throttle: stop=50, rate=5/m, exempt=true. An empty value removes a personal limit: stop="`
}

func (c *userSetCommand) Validate() error {
	if _, err := changeOf(c.Name, c.Changes); err != nil {
		return err
	}
	return c.userFlags.Validate()
}

func (c *userSetCommand) Run(t *terminal) error {
	return ask(t, c.target, c.JSON, func(client *console.Client, ctx context.Context) (u console.UserView, err error) {
		change, err := changeOf(c.Name, c.Changes)
		if err != nil {
			return u, err
		}
		return console.UserSetCall.Ask(ctx, client, change)
	}, t.user)
}

func changeOf(name string, changes []string) (console.UserChange, error) {
	u := console.UserChange{Name: name}
	seen := map[string]bool{}
	for _, text := range changes {
		key, value, found := strings.Cut(text, "=")
		if !found || key == "" {
			return u, fmt.Errorf("%.80q is not a change (write stop=50)", text)
		}
		if seen[key] {
			return u, fmt.Errorf("%s: given twice", key)
		}
		seen[key] = true
		switch key {
		case "contact":
			u.Contact = &value
		case "language":
			u.Language = &value
		case "senders":
			all := listOf(value)
			u.Senders = &all
		case "senders+":
			u.AddSenders = listOf(value)
		case "senders-":
			u.RemoveSenders = listOf(value)
		case "disabled":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return u, fmt.Errorf("disabled: %.40q is neither true nor false", value)
			}
			u.Disabled = &on
		case "password":
			return u,
				errors.New("password: everybody could read it in the list of processes (weir user passwd asks for it)")
		default:
			if strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_") != "" {
				return u, fmt.Errorf("%.80q is not the name of a limit (write stop=50)", key)
			}
			if u.Limits == nil {
				u.Limits = map[string]string{}
			}
			u.Limits[key] = value
		}
	}
	return u, nil
}

// listOf splits a list at commas.
func listOf(text string) []string {
	list := []string{}
	for s := range strings.SplitSeq(text, ",") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}
