package postfix

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
)

// Options change the default Postfix, which takes mail on one port of the loopback, from this machine and from users
// who log in, to any recipient. It delivers nothing locally.
type Options struct {
	// Lines of main.cf, beside those that are there or in place of them.
	Main map[string]string
	// Further lines of master.cf.
	Master []string
	// Where mail goes on: "127.0.0.1:2525". Default: it stays.
	Relay string
	// Who may log in (AUTH PLAIN and LOGIN, without TLS), and their passwords. Default: nobody.
	Users map[string]string
	// Where its own folder is made. Default: where the system keeps temporary files.
	Folder string
}

// An Instance is a running Postfix. Goroutines may share it.
type Instance struct {
	// Addr is where it takes mail, as in "127.0.0.1:40025".
	Addr string
	// Config is its configuration folder, for commands that take one: postqueue -c.
	Config string

	folder string
	users  *authServer
	keeper *keeper.Keeper // nil until it is started
	stop   sync.Once
	failed error
}

// Missing says what this machine lacks to start a Postfix, or "".
func Missing() string {
	if os.Geteuid() != 0 {
		return "starting a Postfix takes root"
	}
	if _, err := exec.LookPath("postfix"); err != nil {
		return "there is no command postfix (Debian's package of that name)"
	}
	return ""
}

// Start starts a Postfix that ends with the test. If that is impossible, the test is skipped, or fails in CI. When the
// test fails, it shows the log.
func Start(t testing.TB, o Options) *Instance {
	t.Helper()
	if lacking := Missing(); lacking != "" {
		needs.Skip(t, lacking)
	}
	p, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log := p.Log()
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the log of Postfix:\n%s", log)
		}
	})
	return p
}

// Run starts a Postfix. It is up when Run returns; Stop ends it.
func Run(o Options) (*Instance, error) {
	if lacking := Missing(); lacking != "" {
		return nil, fmt.Errorf("%s: %w", lacking, errors.ErrUnsupported)
	}
	// Not the test's own folder, which only its owner may read: most of Postfix runs as another user.
	folder, err := os.MkdirTemp(o.Folder, "weir-postfix")
	if err != nil {
		return nil, err
	}
	p := &Instance{Addr: needs.FreeAddress(), Config: filepath.Join(folder, "etc"), folder: folder}
	if err := p.run(o); err != nil {
		log := p.Log()
		_ = p.Stop()
		said := ""
		if p.keeper != nil {
			said = p.keeper.Said()
		}
		return nil, fmt.Errorf("postfix: %w\n%s%s", err, said, log)
	}
	return p, nil
}

// keep starts Postfix and stops it when its input ends, which also happens when the test is killed.
const keep = `
trap '' INT HUP TERM
(trap - INT HUP TERM; exec postfix -c "$1/etc" start) </dev/null || exit 1
cat >/dev/null
pid=$(sed 's/ //g;1q' "$1/spool/pid/master.pid") && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
rm -rf "$1"
`

func (p *Instance) run(o Options) error {
	if err := p.configure(o); err != nil {
		return err
	}
	var err error
	if p.keeper, err = keeper.Start(keep, p.folder); err != nil {
		return err
	}
	if !p.keeper.Up(p.Addr) {
		return errors.New("does not come up")
	}
	return nil
}

// configure makes the folders and writes main.cf and master.cf.
func (p *Instance) configure(o Options) error {
	for _, name := range []string{"", "etc", "spool", "data"} {
		path := filepath.Join(p.folder, name)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o755)); err != nil {
			return err
		}
	}
	if out, err := exec.Command("chown", "postfix", filepath.Join(p.folder, "data")).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	main := map[string]string{
		"compatibility_level":                 "3.6",
		"queue_directory":                     filepath.Join(p.folder, "spool"),
		"data_directory":                      filepath.Join(p.folder, "data"),
		"maillog_file":                        filepath.Join(p.folder, "log"),
		"maillog_file_prefixes":               p.folder,
		"myhostname":                          "mta.test",
		"mydestination":                       "",
		"alias_maps":                          "",
		"alias_database":                      "",
		"inet_interfaces":                     "127.0.0.1",
		"inet_protocols":                      "ipv4",
		"mynetworks":                          "127.0.0.0/8",
		"smtpd_peername_lookup":               "no", // no DNS lookups
		"smtp_host_lookup":                    "native",
		"smtpd_relay_restrictions":            "permit_mynetworks, permit_sasl_authenticated, reject",
		"smtpd_recipient_limit":               "10000",
		"smtpd_client_connection_count_limit": "0",
	}
	if o.Relay == "" {
		main["default_transport"] = "retry:nowhere to go"
	} else {
		host, port, err := net.SplitHostPort(o.Relay)
		if err != nil {
			return err
		}
		main["relayhost"] = fmt.Sprintf("[%s]:%s", host, port)
	}
	if len(o.Users) > 0 {
		var err error
		if p.users, err = newAuthServer(o.Users); err != nil {
			return err
		}
		main["smtpd_sasl_auth_enable"] = "yes"
		main["smtpd_sasl_type"] = "dovecot"
		main["smtpd_sasl_path"] = "inet:" + p.users.addr
	}
	maps.Copy(main, o.Main)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(main)) {
		fmt.Fprintf(&text, "%s = %s\n", name, main[name])
	}
	services := p.Addr + " inet n - n - - smtpd\n" + services + strings.Join(o.Master, "\n") + "\n"
	return errors.Join(
		os.WriteFile(filepath.Join(p.Config, "main.cf"), []byte(text.String()), 0o644),
		os.WriteFile(filepath.Join(p.Config, "master.cf"), []byte(services), 0o644))
}

// services are the parts that every Postfix has, none of them in a chroot.
const services = `
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
proxywrite unix - - n - 1 proxymap
smtp unix - - n - - smtp
relay unix - - n - - smtp
showq unix n - n - - showq
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
tlsmgr unix - - n 1000? 1 tlsmgr
postlog unix-dgram n - n - 1 postlogd
`

// Stop ends Postfix and removes its folder. A second call does nothing.
func (p *Instance) Stop() error {
	p.stop.Do(func() {
		if p.keeper != nil {
			p.failed = p.keeper.Stop()
		}
		if p.users != nil {
			p.users.close()
		}
		_ = os.RemoveAll(p.folder)
	})
	return p.failed
}

// Log is the mail log so far.
func (p *Instance) Log() string {
	text, _ := os.ReadFile(filepath.Join(p.folder, "log"))
	return string(text)
}

// Queued is how many mails are in one of its queues: hold, deferred, active, incoming.
func (p *Instance) Queued(queue string) int {
	n := 0
	_ = filepath.WalkDir(filepath.Join(p.folder, "spool", queue), func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return nil
	})
	return n
}

// Command runs one of Postfix' commands on this instance, as in Command("postqueue", "-f"), and returns what it said.
func (p *Instance) Command(name string, args ...string) (string, error) {
	out, err := exec.Command(name, append([]string{"-c", p.Config}, args...)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}
