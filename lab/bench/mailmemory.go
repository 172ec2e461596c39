//go:build linux

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/argon2"

	"weir/mail/login"
	"weir/store"
	"weir/store/sqlite"
)

// manyUsers is M3: the memory of a weir that knows a million mail users, with what the throttle remembers of each,
// while 10,000 of them log in and send mail. The passwords of most are hashed with less work than weir would, or it
// would take all day; a few are not, since that is what takes memory.
func manyUsers(o options) ([]figure, error) {
	known, active, dear := 1_000_000, 10_000, 20
	if o.quick {
		known, active, dear = 10_000, 100, 2
	}
	folder, err := onDisk()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	binary, err := buildWeir(folder)
	if err != nil {
		return nil, err
	}
	end, err := startEnd()
	if err != nil {
		return nil, err
	}
	defer end.stop()
	data := filepath.Join(folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	full, err := login.Hash(benchPassword)
	if err != nil {
		return nil, err
	}
	passwords := func(n int) string {
		if n/(known/active) < dear {
			return full
		}
		return cheapPassword
	}
	start := func() (*running, error) {
		// Credit is back in no time: everybody is given the memory of somebody who has just sent a mail.
		return runWeir(data, fmt.Sprintf(relayConfig, data, end.address, "rate: 100/s")+"log: {level: warn}\n",
			os.Stderr, binary)
	}

	// What is remembered of one who has sent a mail is what is remembered of everybody.
	if err := addUsers(data, 1, passwords, nil); err != nil {
		return nil, err
	}
	w, err := start()
	if err != nil {
		return nil, err
	}
	one := driver{address: w.address, users: 1, mails: 1, step: 1, bytes: mailBytes}
	err = one.run()
	if err == nil {
		err = end.await(1)
	}
	w.Stop()
	if err != nil {
		return nil, err
	}
	state, err := remembered(data, userName(0))
	if err != nil {
		return nil, err
	}
	if err := addUsers(data, known, passwords, state); err != nil {
		return nil, err
	}

	if w, err = start(); err != nil {
		return nil, err
	}
	defer w.Stop()
	before, err := residentKB(w.Pid)
	if err != nil {
		return nil, err
	}
	crowd := driver{address: w.address, users: active, mails: 2, step: known / active, bytes: mailBytes}
	if err := crowd.run(); err != nil {
		return nil, err
	}
	if err := end.await(int64(1 + active*crowd.mails)); err != nil {
		return nil, err
	}
	most, err := memoryKB(w.Pid, "VmHWM")
	if err != nil {
		return nil, err
	}
	return []figure{{fmt.Sprintf("memory of a weir that knows %d mail users, while %d of them log in and send (the "+
		"most that was resident)", known, active), "≤ 500 MB",
		fmt.Sprintf("%d MB (%d MB at the start)", most>>10, before>>10), most <= 500<<10}}, nil
}

// cheapPassword is the password of the benchmarks, hashed with next to no work.
var cheapPassword = func() string {
	salt := []byte("only a benchmark")
	hash := argon2.IDKey([]byte(benchPassword), salt, 1, 8, 1, 16)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=8,t=1,p=1$%s$%s", argon2.Version, encode(salt), encode(hash))
}()

// remembered is what the throttle remembers of a user in a store that nobody has open.
func remembered(folder, user string) ([]byte, error) {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Folder: folder})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var m store.Memory
	err = s.Mail().View(ctx, func(tx store.MailTx) (err error) {
		m, err = tx.Remembered("outgoing", user)
		return err
	})
	return m.State, err
}

// await waits until so many mails have come.
func (e *end) await(n int64) error {
	for late := time.Now().Add(patience); e.count.Load() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(late) {
			return fmt.Errorf("%d mails have arrived, and not %d", e.count.Load(), n)
		}
	}
	return nil
}
