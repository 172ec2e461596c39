package app_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/app"
	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/store"
	"weir/store/sqlite"
)

// house starts a weir with a console, and returns what it has logged.
func house(t *testing.T, folder, consoleAt string, o app.Options) (a *app.App, log *bytes.Buffer, err error) {
	t.Helper()
	log = &bytes.Buffer{}
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	parse := func(at string) *config.Config {
		cfg, err := config.Parse("weir.yaml", []byte("data: "+folder+"\nconsole: {listen: \""+at+"\"}\n"+
			"http: [{listen: \"127.0.0.1:0\", upstream: \"http://127.0.0.1:1\"}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	o.Load = func() (*config.Config, error) { return parse("127.0.0.1:0"), nil }
	if a, err = app.New(parse(consoleAt), o); err != nil {
		t.Fatal(err)
	}
	if err = a.Start(context.Background()); err == nil {
		t.Cleanup(func() { a.Stop(context.Background()) })
	}
	return a, log, err
}

// TestFirstPassword: the first start writes it to a file that only weir's own user reads, or hands it to the terminal;
// it is never in the log. Later starts make none.
func TestFirstPassword(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a, log, err := house(t, folder, "127.0.0.1:0", app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "admin-password")
	secret, err := os.ReadFile(path)
	info, failed := os.Stat(path)
	if err != nil || failed != nil || info.Mode().Perm() != 0o600 || len(strings.TrimSpace(string(secret))) < 20 {
		t.Fatalf("%v %v", err, failed)
	}
	if err := a.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), strings.TrimSpace(string(secret))) || !strings.Contains(log.String(), path) {
		t.Errorf("the log: %s", log)
	}
	_, _, err = house(t, folder, "127.0.0.1:0", app.Options{FirstPassword: func(string, string) error {
		t.Error("another password")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}

	terminal := t.TempDir()
	shown := ""
	a, log, err = house(t, terminal, "127.0.0.1:0", app.Options{FirstPassword: func(name, password string) error {
		shown = name + " " + password
		return nil
	}})
	if err == nil {
		err = a.Stop(context.Background()) // so that nothing is logged any more
	}
	if err != nil || !strings.HasPrefix(shown, "admin ") || strings.Contains(log.String(), shown[6:]) {
		t.Errorf("%q, %v", shown, err)
	}
	if _, err := os.Stat(filepath.Join(terminal, "admin-password")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file, too: %v", err)
	}

	// Where nobody can be told, nobody is let in, and the next start tries again.
	broken, full := t.TempDir(), errors.New("the disk is full")
	if _, _, err := house(t, broken, "127.0.0.1:0", app.Options{
		FirstPassword: func(string, string) error { return full }}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	if _, _, err := house(t, broken, "127.0.0.1:0", app.Options{}); err != nil {
		t.Error(err)
	}
}

// TestConsoleThatIsTurnedOn: without a console there is nobody to log in; a reload that turns it on makes the first
// operator.
func TestConsoleThatIsTurnedOn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	a, _, err := house(t, folder, "off", app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "admin-password")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if err := a.Reread(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

// TestAuditLogIsShortened: entries are forgotten after 90 days, also without mail.
func TestAuditLogIsShortened(t *testing.T) {
	t.Parallel()
	c := clock.NewFake(noon)
	a, _, err := house(t, t.TempDir(), "off", app.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	client := console.NewClient(a.ControlPath())
	acts := func() (all []store.Entry) {
		t.Helper()
		if _, err := client.Ban(t.Context(), console.BanOrder{Who: "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		page, err := client.Audit(t.Context(), console.AuditQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return page.Entries
	}
	first := acts()
	if len(first) != 1 || first[0].Before != "" || !first[0].At.Equal(noon) {
		t.Fatalf("%+v", first)
	}
	c.Leap(90 * 24 * time.Hour)
	if all := acts(); len(all) != 2 || !strings.Contains(string(all[0].Before), "192.0.2.1") {
		t.Errorf("%+v", all)
	}
	c.Leap(2 * time.Hour)
	if all := acts(); len(all) != 2 || !all[1].At.After(noon) {
		t.Errorf("%+v", all)
	}
}

// TestPasswordsTakeTheirTime: without options of tests, the passwords of operators and of mail users are hashed with as
// much memory as login takes.
func TestPasswordsTakeTheirTime(t *testing.T) {
	t.Parallel()
	p := &post{t: t, sink: newSink(t), folder: t.TempDir()}
	a, err := app.New(p.config(tight, ""), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	p.app, p.control = a, console.NewClient(a.ControlPath())
	p.user("ann")
	if err := p.mailer("ann").Close(); err != nil {
		t.Error(err)
	}
	p.stop()
	kept, err := sqlite.Open(t.Context(), sqlite.Options{Folder: p.folder})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	var operator store.Operator
	var user store.User
	err = errors.Join(
		kept.Access().View(t.Context(), func(tx store.AccessTx) (err error) {
			operator, err = tx.Operator("admin")
			return err
		}),
		kept.Mail().View(t.Context(), func(tx store.MailTx) (err error) {
			user, err = tx.User("ann")
			return err
		}))
	for _, stored := range []string{operator.Password, user.Password} {
		if err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Errorf("stored is %q, %v", stored, err)
		}
	}
}
