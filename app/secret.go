package app

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"weir/config"
	"weir/internal/readfile"
)

// secretFile holds weir's own secret, in the data folder. Whoever has it can make stamps and tickets for this node.
// What is kept in the store is hashed with what follows from it, so it stays when the farm's secret changes.
const secretFile = "secret"

func newSecret() []byte {
	secret := make([]byte, 32)
	rand.Read(secret)
	return secret
}

// keepSecret reads the secret from the data folder, or puts it there, so that stamps and places in line survive a
// restart.
func (a *App) keepSecret(g *generation) error {
	secret, err := readSecret(filepath.Join(g.cfg.Data, secretFile), a.secret)
	if err != nil {
		return err
	}
	a.secret = secret
	for _, t := range g.throttles {
		if t.stamps() == nil {
			continue
		}
		t.config = a.signed(g.cfg, t.name)
		if err := t.configure(t.config, a.opts.Clock.Now()); err != nil {
			return fmt.Errorf("throttle %s: %w", t.name, err)
		}
	}
	return a.keepMailKeys(g)
}

// maxSecretFile is how large the file of a secret may be.
const maxSecretFile = 4096

// readSecret returns the secret in a file, after writing one if there is no such file.
func readSecret(path string, fresh []byte) ([]byte, error) {
	text, err := readfile.Read(path, maxSecretFile)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, writeSecret(path, fresh)
	}
	if err != nil {
		return nil, fmt.Errorf("the secret cannot be read: %w", err)
	}
	secret, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) < 16 {
		return nil, fmt.Errorf("%s holds no secret (32 hexadecimal digits or more): remove it, and a new one is made",
			path)
	}
	return secret, nil
}

// writeSecret writes the secret completely or not at all.
func writeSecret(path string, secret []byte) error {
	if err := writeWhole(path, fmt.Appendln(nil, hex.EncodeToString(secret))); err != nil {
		return fmt.Errorf("the secret cannot be stored: %w", err)
	}
	return nil
}

// derive makes a secret for one purpose from another.
func derive(secret []byte, purpose string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

// roots are what everything that clients carry from node to node is signed with: the first one signs, all are honoured.
// In a farm they follow from its secrets; what weir signed before it was in one stays good here.
func (a *App) roots(c *config.Config) (all [][]byte) {
	if c != nil && c.Farm != nil {
		for _, s := range c.Farm.Secret {
			all = append(all, derive([]byte(s), "what clients carry"))
		}
	}
	return append(all, a.secret)
}

// signers are the secrets for one purpose: the first one signs, all are honoured.
func (a *App) signers(c *config.Config, purpose string) (all [][]byte) {
	for _, root := range a.roots(c) {
		all = append(all, derive(root, purpose))
	}
	return all
}

// hashKey makes the key of hashes that are kept in the store. Other than what signs, it never changes: what was hashed
// under another one would be forgotten. So it follows from this node's own secret, in a farm too.
func (a *App) hashKey(purpose string) []byte { return derive(a.secret, purpose) }

// secrets are those that sign the ids and tickets of a gate with these throttles: the ones of its stamps where these
// have some, so that nodes with the same ones honour each other's; else the farm's, or weir's own. It is asked while a
// configuration is being prepared, or started.
func (a *App) secrets(throttles []string) (all [][]byte) {
	for _, name := range throttles {
		if o := a.coming.Throttles[name].Stamp; o != nil {
			for _, s := range []string{o.Secret, o.OldSecret} {
				if s != "" {
					all = append(all, []byte(s))
				}
			}
		}
	}
	return append(all, a.roots(a.coming)...)
}

// signed returns the throttle of a name with what its stamps are signed with. A secret of their own goes first; in a
// farm, those of a node that has none are honoured beside it.
func (a *App) signed(c *config.Config, name string) config.Throttle {
	t := c.Throttles[name]
	if t.Stamp == nil || t.Stamp.Secret != "" && c.Farm == nil {
		return t
	}
	o := *t.Stamp
	var all []string
	for _, s := range []string{o.Secret, o.OldSecret} {
		if s != "" {
			all = append(all, s)
		}
	}
	for _, s := range a.signers(c, "stamps of "+name) {
		all = append(all, hex.EncodeToString(s))
	}
	o.Secret, o.OldSecret = all[0], ""
	if c.Farm != nil {
		o.OldSecret = all[1]
	}
	t.Stamp = &o
	return t
}
