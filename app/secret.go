package app

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/config"
)

// secretFile holds the secret, in the data folder. Whoever has it can make stamps and tickets.
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
		t.config = a.signed(t.name, g.cfg.Throttles[t.name])
		if err := t.configure(t.config, a.opts.Clock.Now()); err != nil {
			return fmt.Errorf("throttle %s: %w", t.name, err)
		}
	}
	return a.keepMailKeys(g)
}

// readSecret returns the secret in a file, after writing one if there is no such file.
func readSecret(path string, fresh []byte) ([]byte, error) {
	text, err := os.ReadFile(path)
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
	f, err := os.CreateTemp(filepath.Dir(path), secretFile+".*") // for the owner only
	if err != nil {
		return fmt.Errorf("the secret cannot be kept: %w", err)
	}
	_, err = fmt.Fprintln(f, hex.EncodeToString(secret))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("the secret cannot be kept: %w", err)
	}
	if folder, err := os.Open(filepath.Dir(path)); err == nil {
		_ = folder.Sync() // or its name is lost with the power; not every file system can, and then it need not
		_ = folder.Close()
	}
	return nil
}

// secrets are those that sign the ids and tickets of a gate with these throttles: the ones of its stamps where these
// have some, so that the nodes of a farm honour each other's; else weir's own. It is asked while a configuration is
// being prepared, or started.
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
	return append(all, a.secret)
}

// signed gives stamps without a secret of their own one that follows from weir's.
func (a *App) signed(name string, c config.Throttle) config.Throttle {
	if c.Stamp == nil || c.Stamp.Secret != "" {
		return c
	}
	h := hmac.New(sha256.New, a.secret)
	h.Write([]byte("stamps of " + name))
	o := *c.Stamp
	o.Secret = hex.EncodeToString(h.Sum(nil))
	c.Stamp = &o
	return c
}
