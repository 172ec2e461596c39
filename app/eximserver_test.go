package app_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
)

// eximUser is the user that Debian's Exim runs as. It does not start without.
const eximUser = "Debian-exim"

// An eximServer is a running Exim. Goroutines may share it.
type eximServer struct {
	folder string
	keeper *keeper.Keeper // nil until it is started
}

// eximProgram finds Exim, or says what this machine lacks to start one.
func eximProgram() (path, lacking string) {
	if os.Geteuid() != 0 {
		return "", "starting an Exim takes root"
	}
	path, err := exec.LookPath("exim4")
	if err != nil {
		return "", "there is no command exim4 (make setup unpacks Debian's, into bin/peers)"
	}
	if out, err := exec.Command(path, "-C", os.DevNull, "-bV").CombinedOutput(); err != nil {
		return "", fmt.Sprintf("%s does not start: %v: %s", path, err, out)
	}
	return path, ""
}

// runExim starts an Exim with a configuration, which has to say where it listens; at is one of these addresses. Its
// folders are added, and it offers no TLS. It is up when runExim returns, and ends with the test. If there is no Exim,
// the test is skipped, or fails in CI. When the test fails, it shows the log.
func runExim(t testing.TB, configuration, at string) *eximServer {
	t.Helper()
	path, lacking := eximProgram()
	if lacking != "" {
		needs.Skip(t, lacking)
	}
	// Not the test's own folder, which only its owner may read: most of Exim runs as another user.
	folder, err := os.MkdirTemp("", "weir-exim")
	if err != nil {
		t.Fatal(err)
	}
	x := &eximServer{folder: folder}
	t.Cleanup(func() {
		log := x.Log()
		if err := x.stop(); err != nil {
			t.Errorf("Exim: %v\n%s", err, x.keeper.Said())
		}
		if t.Failed() {
			t.Logf("the log of Exim:\n%s", log)
		}
	})
	if err := x.run(path, configuration, at); err != nil {
		t.Fatal(err)
	}
	return x
}

// keepExim starts Exim and stops it when its input ends, which also happens when the test is killed.
const keepExim = `
trap '' INT HUP TERM
(trap - INT HUP TERM; exec "$1" -C "$2/conf" -bdf -q1h) </dev/null &
cat >/dev/null
kill $!
wait $!
exit 0
`

func (x *eximServer) run(path, configuration, at string) error {
	for _, name := range []string{"", "spool", "log"} {
		if err := errors.Join(os.MkdirAll(x.path(name), 0o755), os.Chmod(x.path(name), 0o755)); err != nil {
			return err
		}
	}
	if out, err := exec.Command("chown", eximUser, x.path("spool"), x.path("log")).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	// exim_path is what it starts itself again by, for deliveries. Without the right to become root it delivers as its
	// own user.
	folders := fmt.Sprintf("exim_path = %s\nspool_directory = %s\nlog_file_path = %s\npid_file_path = %s\n"+
		"keep_environment = PATH\ndeliver_drop_privilege\ntls_advertise_hosts =\n", path, x.path("spool"),
		x.path("log/%slog"), x.path("log/pid"))
	if err := os.WriteFile(x.path("conf"), []byte(folders+configuration), 0o644); err != nil {
		return err
	}
	if out, err := exec.Command(path, "-C", x.path("conf"), "-bV").CombinedOutput(); err != nil {
		return fmt.Errorf("exim does not take its configuration: %w: %s", err, out)
	}
	var err error
	if x.keeper, err = keeper.Start(keepExim, path, x.folder); err != nil {
		return err
	}
	if !x.keeper.Up(at) {
		return errors.New("exim does not come up")
	}
	return nil
}

func (x *eximServer) path(name string) string { return filepath.Join(x.folder, name) }

// stop ends Exim and removes its folder.
func (x *eximServer) stop() (err error) {
	if x.keeper != nil {
		err = x.keeper.Stop()
	}
	// A delivery may still be under way, and write there.
	keeper.Await(func() bool { return os.RemoveAll(x.folder) == nil })
	return err
}

// Log is the log so far: what was received and delivered, what was refused, and what went wrong.
func (x *eximServer) Log() string {
	var all []byte
	for _, name := range []string{"mainlog", "rejectlog", "paniclog"} {
		text, _ := os.ReadFile(x.path("log/" + name))
		all = append(all, text...)
	}
	return string(all)
}

// Queued lists the messages in the queue, as "exim -bp" does. Frozen ones are marked.
func (x *eximServer) Queued(t testing.TB) string {
	t.Helper()
	path, _ := eximProgram()
	out, err := exec.Command(path, "-C", x.path("conf"), "-bp").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}
