package main

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/store"
	"weir/store/sqlite"
)

// keepMail puts mail into the store of a data folder, one of it with a text that is too long for the database.
func keepMail(ts *testscript.TestScript, _ bool, args []string) {
	folder := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(folder, 0o700))
	s, err := sqlite.Open(context.Background(), sqlite.Options{Folder: folder})
	ts.Check(err)
	for i, size := range []int{100, store.MaxInline + 1} {
		l := store.Message{ID: store.MailID(i + 1), Gate: ":587", User: "ann", Sender: "ann@example.org", Received: noon}
		to := []store.Addressee{{Address: "bob@example.net", State: store.Ready}}
		staged := s.Mail().Stage()
		_, err := staged.Write([]byte("Subject: news\r\n\r\n" + strings.Repeat("x", size) + "\r\n"))
		ts.Check(err)
		staged.Note(&l, to)
		text, err := staged.Seal()
		ts.Check(err)
		ts.Check(s.Mail().Update(context.Background(), func(tx store.MailTx) error {
			return errors.Join(tx.PutMessage(l, text, to), tx.PutUser(store.User{Name: "ann"}))
		}))
	}
	ts.Check(s.Close())
}

// damage writes zeroes over the beginning of a file.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY, 0)
	ts.Check(err)
	_, err = f.Write(make([]byte, 4096))
	ts.Check(errors.Join(err, f.Close()))
}
