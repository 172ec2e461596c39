package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/console"
	"weir/internal/testkit/needs"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"weir": main})
}

// The scripts in testdata run the command itself. WEIR_CONTROL is a path for the control socket, UPSTREAM a service to
// stand in front of; a weir that is started in the background tells by NOTIFY_SOCKET how it stands.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/script")
}

// TestCommandScripts runs the scripts in which no weir serves.
func TestCommandScripts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	runScripts(t, "testdata/script/commands")
}

func runScripts(t *testing.T, folder string) {
	t.Helper()
	hanging := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			hanging <- struct{}{}
			<-r.Context().Done()
		}
		io.WriteString(w, "hello")
	}))
	t.Cleanup(upstream.Close)
	testscript.Run(t, testscript.Params{
		Dir: folder,
		Setup: func(e *testscript.Env) error {
			// The script's own folder has too long a name for a socket.
			short, err := os.MkdirTemp("", "weir")
			if err != nil {
				return err
			}
			e.Defer(func() { os.RemoveAll(short) })
			manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(short, "notify")})
			if err != nil {
				return err
			}
			e.Defer(func() { manager.Close() })
			e.Values["manager"] = manager
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command of a race build takes a second to end
			e.Setenv("GOGC", "off")                 // a third of the time of a command goes into collecting its own flags
			e.Setenv("UPSTREAM", upstream.URL)
			e.Setenv("TAKEN", upstream.Listener.Addr().String())
			e.Setenv("WEIR_CONTROL", filepath.Join(short, "weir.sock"))
			e.Setenv("NOTIFY_SOCKET", filepath.Join(short, "notify"))
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "installed" {
				return false, fmt.Errorf("the condition %q is not known", name)
			}
			return findConfig("") != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"notified": notified, "signal": sendSignal, "get": get, "status": status, "keepmail": keepMail,
			"damage": damage, "written": written,
			"consoleurl": func(ts *testscript.TestScript, _ bool, _ []string) {
				s, err := console.StatusCall.Ask(context.Background(), console.NewClient(ts.Getenv("WEIR_CONTROL")),
					console.None{})
				ts.Check(err)
				ts.Setenv("WEIR_CONSOLE", "http://"+s.Console)
			},
			"hang": func(ts *testscript.TestScript, _ bool, _ []string) {
				url := gate(ts) + "/hang"
				go http.Get(url) // it is answered, or cut off, when weir stops
				<-hanging
			},
		},
	})
}

// status runs a command and compares its exit code.
func status(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: status CODE COMMAND...")
	}
	if args[0] == fmt.Sprint(exitUsage) && args[1] == "weir" && !namesFile(ts, args[2:]) {
		misuse(ts, args[2:])
		return
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Check(err)
		}
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// namesFile reports whether an argument is a file or a folder of the script.
func namesFile(ts *testscript.TestScript, args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		if _, value, found := strings.Cut(arg, "="); found {
			arg = value
		}
		_, err := os.Stat(ts.MkAbs(arg))
		return arg != "" && err == nil
	})
}

// misuse wants arguments that are not understood. That is decided before anything is done, so it takes no process.
func misuse(ts *testscript.TestScript, args []string) {
	parser, err := parserFor(grammar(args), &terminal{out: ts.Stdout(), err: ts.Stderr()})
	ts.Check(err)
	parser.Exit = func(code int) { ts.Fatalf("exit code %d, want %d", code, exitUsage) }
	if _, err = parser.Parse(args); err == nil {
		ts.Fatalf("the arguments are understood")
	}
	refuse(err, ts.Stderr())
}

// notified waits for the next notification and compares its first line.
func notified(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: notified STATE")
	}
	message := make([]byte, 4096)
	n, err := ts.Value("manager").(*net.UnixConn).Read(message)
	ts.Check(err)
	if state, _, _ := strings.Cut(string(message[:n]), "\n"); state != args[0] {
		ts.Fatalf("notified %q, want %q", state, args[0])
	}
}

// written waits until a file has a line that matches.
func written(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: written FILE REGEXP")
	}
	line, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	defer func() {
		if !line.Match(text) {
			ts.Logf("%s:\n%s", args[0], text)
		}
	}()
	needs.Wait(played{ts: ts}, fmt.Sprintf("a line of %s matches %s", args[0], args[1]), func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0]))
		return line.Match(text)
	})
}

// A played script is a test that can wait.
type played struct {
	testing.TB
	ts *testscript.TestScript
}

func (played) Helper() {}

func (p played) Fatal(args ...any) { p.ts.Fatalf("%s", fmt.Sprint(args...)) }

// sendSignal sends a signal to the command in the background.
func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT}
	running := ts.BackgroundCmds()
	if len(args) != 1 || signals[args[0]] == nil || len(running) != 1 {
		ts.Fatalf("usage: signal HUP|TERM|INT, with one command in the background")
	}
	ts.Check(running[0].Process.Signal(signals[args[0]]))
}

// get asks the first gate as an account and compares the status. It waits until the request is over for the gate, too,
// which has a little to do after its answer.
func get(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: get ACCOUNT STATUS")
	}
	req, err := http.NewRequest("GET", gate(ts)+"/v1/things", nil)
	ts.Check(err)
	req.Header.Set("X-Account", args[0])
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	resp.Body.Close()
	if fmt.Sprint(resp.StatusCode) != args[1] {
		ts.Fatalf("status %d, want %s", resp.StatusCode, args[1])
	}
	needs.Wait(played{ts: ts}, "the request ends", func() bool { return firstGate(ts).InFlight == 0 })
}

// gate returns the URL of the first gate of the running weir.
func gate(ts *testscript.TestScript) string { return "http://" + firstGate(ts).Address }

func firstGate(ts *testscript.TestScript) console.GateStatus {
	s, err := console.StatusCall.Ask(context.Background(), console.NewClient(ts.Getenv("WEIR_CONTROL")), console.None{})
	ts.Check(err)
	return s.Gates[0]
}
