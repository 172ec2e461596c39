package app_test

import (
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/store/sqlite"
)

// maxFrames is how deep our own calls may be where a message is stored and where a request is written to the upstream.
// docs/architecture.md lists them.
const maxFrames = 12

// ownFrames waits for a goroutine whose innermost function of ours is the one named and whose stack has the others too.
// It returns our functions on that stack, the innermost first.
func ownFrames(t *testing.T, innermost string, others ...string) []string {
	t.Helper()
	dump := make([]byte, 16<<20)
	for end := time.Now().Add(6 * patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for goroutine := range strings.SplitSeq(string(dump[:runtime.Stack(dump, true)]), "\n\n") {
			missing := func(name string) bool { return !strings.Contains(goroutine, "\n"+name) }
			if slices.ContainsFunc(others, missing) {
				continue
			}
			var frames []string
			for line := range strings.SplitSeq(goroutine, "\n") {
				if name, own := strings.CutPrefix(line, "weir/"); own && !strings.HasPrefix(name, "app_test.") {
					frames = append(frames, name[:strings.LastIndexByte(name, '(')])
				}
			}
			if len(frames) > 0 && frames[0] == innermost {
				return frames
			}
		}
	}
	t.Fatalf("nobody is in %s", innermost)
	return nil
}

func wantFrames(t *testing.T, what string, frames []string) {
	t.Helper()
	t.Logf("%s: %d frames of our own\n\t%s", what, len(frames), strings.Join(frames, "\n\t"))
	if len(frames) > maxFrames {
		t.Errorf("%s: %d frames of our own, at most %d", what, len(frames), maxFrames)
	}
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if list := "    " + strings.Join(frames, "\n    ") + "\n"; !strings.Contains(string(page), list) {
		t.Errorf("%s: docs/architecture.md does not list these frames:\n%s", what, list)
	}
}

// meanwhile repeats something in the background until the function it returns is called.
func meanwhile(again func(i int)) (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				again(i)
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// TestFramesOfAMessage counts our frames between the socket and the store.
func TestFramesOfAMessage(t *testing.T) {
	p := newPost(t, "rate: 1000/s", "", "")
	p.user("ann", "ann@example.org")
	m := p.mailer("ann")
	// Another program that writes makes the commit wait, however fast the disk is.
	db, err := sql.Open("sqlite", filepath.Join(p.folder, sqlite.File))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	end := meanwhile(func(i int) { _ = m.send(fmt.Sprint(i), fmt.Sprintf("r%d@example.net", i)) })
	frames := ownFrames(t, "store/sqlite.mail.Update", "weir/gate/smtpgate.")
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Error(err)
	}
	end()
	wantFrames(t, "a message commits", frames)
}

// TestFramesOfARequest counts our frames between the socket and the upstream.
func TestFramesOfARequest(t *testing.T) {
	s := newSite(t, one(`{name: a, limit: 1000000000, period: 1h}`))
	var ends []func()
	for range 4 { // a write takes microseconds: somebody should be writing most of the time
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		ends = append(ends, meanwhile(func(int) {
			res, err := client.Get("http://" + s.app.Addr("http", 0).String() + "/")
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				<-s.arrived
			}
		}))
	}
	frames := ownFrames(t, "upstream.(*conn).write", "internal/poll.(*FD).Write(", "weir/gate/httpgate.")
	for _, end := range ends {
		end()
	}
	wantFrames(t, "a request is written", frames)
}
