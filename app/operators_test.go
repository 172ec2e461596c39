package app_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
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

// TestFirstPassword: the first start writes it to a file that only weir's own user reads. Until it was used, each start
// on a terminal shows it, also after one that failed. It is never in the log. Later starts make none.
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
	// On a terminal, also where the first start there fails as somebody else has the address.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	folder = t.TempDir()
	for i, at := range []string{taken.Addr().String(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"} {
		shown := ""
		a, log, err := house(t, folder, at, app.Options{FirstPassword: func(name, password string) error {
			shown = name + " " + password
			return nil
		}})
		if (err != nil) != (i == 0) {
			t.Fatalf("start %d: %v", i+1, err)
		}
		password := strings.TrimPrefix(shown, "admin ")
		if i == 2 {
			logInAsAdmin(t, "http://"+a.ConsoleAddr().String(), password)
		}
		if err == nil {
			err = a.Stop(context.Background()) // so that nothing is logged any more
		}
		if (err != nil) != (i == 0) || (shown != "") != (i < 3) || shown != "" && strings.Contains(log.String(), password) {
			t.Errorf("start %d: %q, %v", i+1, shown, err)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "admin-password")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was used, and is still in the file: %v", err)
	}

	// Where the password cannot be kept, nobody is let in, and the next start tries again.
	broken := t.TempDir()
	path = filepath.Join(broken, "admin-password")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := house(t, broken, "127.0.0.1:0", app.Options{}); err == nil {
		t.Error("a password that nobody can know")
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if _, _, err := house(t, broken, "127.0.0.1:0", app.Options{}); err != nil {
		t.Error(err)
	}
}

// logInAsAdmin logs in as a browser does.
func logInAsAdmin(t *testing.T, site, password string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	page, err := client.Get(site + "/login")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(page.Body)
	page.Body.Close()
	token := regexp.MustCompile(`name="form" value="([^"]+)"`).FindSubmatch(text)
	if err != nil || token == nil {
		t.Fatalf("%v\n%s", err, text)
	}
	done, err := client.PostForm(site+"/login", url.Values{"form": {string(token[1])}, "name": {"admin"},
		"password": {password}})
	if err != nil {
		t.Fatal(err)
	}
	defer done.Body.Close()
	if text, _ := io.ReadAll(done.Body); done.StatusCode != http.StatusOK || !bytes.Contains(text, []byte("Log out")) {
		t.Fatalf("%s\n%s", done.Status, text)
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
		if _, err := console.BanAddCall.Ask(t.Context(), client, console.BanOrder{Who: "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		page, err := console.AuditListCall.Ask(t.Context(), client, console.AuditQuery{})
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
