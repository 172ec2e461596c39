//go:build linux

package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	"golang.org/x/crypto/argon2"

	"weir/mail/login"
	"weir/store"
	"weir/store/sqlite"
)

// manyUsers is M3: the memory of a weir that knows a million mail users, with what the throttle remembers of each,
// while 10,000 of them log in and send mail. Most passwords are hashed with less work than weir would take, or it would
// take all day. A few are hashed as weir does, since that is what takes memory.
func manyUsers(t *trial) []figure {
	known, active, dear := 1_000_000, 10_000, 20
	if t.quick {
		known, active, dear = 10_000, 100, 2
	}
	folder := t.folderOnDisk()
	binary, data, end := buildWeir(folder), subfolder(folder, "data"), t.startEnd()
	full, cheap := try(login.Hash(benchPassword)), cheapPassword()
	passwords := func(n int) string {
		if n/(known/active) < dear {
			return full
		}
		return cheap
	}
	start := func() *running {
		// Credit is back at once: every user gets the memory of one who has just sent a mail.
		return t.runWeir(data, fmt.Sprintf(relayConfig, data, end.address, "rate: 100/s")+"log: {level: warn}\n",
			os.Stderr, binary)
	}

	// What the throttle remembers of one user who has sent a mail is written for all of them.
	addUsers(data, 1, passwords, nil)
	w := start()
	(&driver{address: w.address, users: 1, mails: 1, step: 1, bytes: mailBytes}).run()
	arrived(&end.count, 1)
	w.Stop()
	addUsers(data, known, passwords, remembered(data, userName(0)))

	w = start()
	before := memoryKB(w.Pid, "VmRSS")
	crowd := driver{address: w.address, users: active, mails: 2, step: known / active, bytes: mailBytes}
	crowd.run()
	arrived(&end.count, int64(1+active*crowd.mails))
	most := memoryKB(w.Pid, "VmHWM")
	return []figure{{fmt.Sprintf("memory of a weir that knows %d mail users, while %d of them log in and send (the "+
		"most that was resident)", known, active), "≤ 500 MB",
		fmt.Sprintf("%d MB (%d MB at the start)", most>>10, before>>10), most <= 500<<10}}
}

// cheapPassword is the password of the benchmarks, hashed with next to no work.
func cheapPassword() string {
	salt := []byte("only a benchmark")
	hash := argon2.IDKey([]byte(benchPassword), salt, 1, 8, 1, 16)
	encode := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=8,t=1,p=1$%s$%s", argon2.Version, encode(salt), encode(hash))
}

// remembered is what the throttle remembers of a user, in a store that no process has open.
func remembered(folder, user string) []byte {
	ctx := context.Background()
	s := try(sqlite.Open(ctx, sqlite.Options{Folder: folder}))
	defer s.Close()
	var m store.Memory
	check(s.Mail().View(ctx, func(tx store.MailTx) (err error) {
		m, err = tx.Remembered("outgoing", user)
		return err
	}))
	return m.State
}
