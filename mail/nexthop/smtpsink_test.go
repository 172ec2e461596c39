package nexthop

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/needs"
)

// startSink starts Postfix' smtp-sink on a socket of this machine, and returns its address.
func startSink(t testing.TB, options ...string) string {
	t.Helper()
	program, err := exec.LookPath("smtp-sink")
	if err != nil {
		program = "/usr/sbin/smtp-sink" // not in the path of everybody
	}
	if _, err := os.Stat(program); err != nil {
		needs.Skip(t, "smtp-sink (Debian: postfix) is not installed")
	}
	socket := filepath.Join(t.TempDir(), "s")
	if os.Getuid() == 0 {
		options = append(options, "-u", "root") // it wants to be told
	}
	cmd := exec.Command(program, append(options, "unix:"+socket, "100")...)
	cmd.Dir = filepath.Dir(socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	needs.Wait(t, "smtp-sink listens", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return socket
}

// TestSMTPSink: Postfix' test server takes mail, and fails in all the ways that it can.
func TestSMTPSink(t *testing.T) {
	for options, wanted := range map[string]string{
		"":        "done 2.0.0",
		"-p":      "done 2.0.0", // no pipelining
		"-e":      "done 2.0.0", // HELO only
		"-E":      "done 2.0.0", // no enhanced codes
		"-N":      "done 2.0.0", // no DSN
		"-8":      "done 2.0.0", // no 8BITMIME
		"-L":      "done 2.2.0", // LMTP
		"-L -p":   "done 2.2.0",
		"-r MAIL": "later 4.3.0 command failed",
		"-r RCPT": "later 4.3.0 command failed",
		"-r DATA": "later 4.3.0 command failed",
		"-r .":    "later 4.3.0 command failed",
		"-f MAIL": "failed 5.3.0 command failed",
		"-f RCPT": "failed 5.3.0 command failed",
		"-f DATA": "failed 5.3.0 command failed",
		"-f .":    "failed 5.3.0 command failed",
		"-A 0":    "failed 5.0.0 violates SMTP", // after DATA, before the text
		"-f EHLO": "done 2.0.0",
		"-q EHLO": "later 4.4.2 hung up",
		"-q MAIL": "later 4.4.2 MAIL",
		"-q RCPT": "later 4.4.2",
		"-q DATA": "later 4.4.2",
		"-q .":    "ambiguous 4.4.2 hung up",
		"-Q EHLO": "later 4.0.0",
		"-Q MAIL": "later 4.",
		"-Q RCPT": "later 4.",
		"-Q DATA": "later 4.",
		"-Q .":    "later 4.",
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			server := "unix:" + startSink(t, strings.Fields(options)...)
			if strings.HasPrefix(options, "-L") {
				server = "lmtp:" + server
			}
			client := newClient(t, Env{}, nil, server)
			for i := range 3 {
				wanted := wanted
				if i > 0 { // it is left alone, and nothing comes to the dot
					wanted = strings.Replace(wanted, "ambiguous", "later", 1)
				}
				got := client.Deliver(soon(t), job(bob, "carol@example.net"))
				for _, r := range got {
					told := fmt.Sprintf("%s %s %s", r.Outcome, r.Status, r.Text)
					words := strings.SplitN(wanted, " ", 3)
					if !strings.HasPrefix(told, words[0]+" "+words[1]) || len(words) > 2 &&
						!strings.Contains(told, words[2]) {
						t.Errorf("%s, want %s", told, wanted)
					}
					if options == "-N" && !r.Relayed || options == "" && r.Relayed {
						t.Errorf("%+v", r)
					}
				}
			}
			if n := client.Stats().Dials; strings.HasPrefix(wanted, "done") && n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestSMTPSinkDump: what Postfix' test server writes down is what was sent.
func TestSMTPSinkDump(t *testing.T) {
	folder := t.TempDir()
	client := newClient(t, Env{}, nil, "unix:"+startSink(t, "-d", filepath.Join(folder, "m.")))
	j := job(bob, "carol@example.net")
	j.Open, j.Size = open("Subject: x\r\n\r\n.\r\n..a\r\nend"), 0
	want(t, client.Deliver(soon(t), j), "done 2.0.0", "done 2.0.0")
	files, err := filepath.Glob(filepath.Join(folder, "m.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"X-Helo-Args: me.example.org\n", "X-Mail-Args: <ann@example.org>\n",
		"X-Rcpt-Args: <bob@example.net>\n",
		"X-Rcpt-Args: <carol@example.net>\n", "Subject: x\n\n.\n..a\nend\n"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is missing in %q", part, text)
		}
	}
}

func benchmarkDeliver(b *testing.B, server string, committed func() error) {
	const at = 20
	client := newClient(b, Env{}, func(o *Options) { o.Connections = at }, server)
	text := []byte("Subject: benchmark\r\n\r\n" + strings.Repeat(strings.Repeat("x", 76)+"\r\n", 52))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	jobs := make(chan struct{}, b.N)
	for range b.N {
		jobs <- struct{}{}
	}
	close(jobs)
	b.ResetTimer()
	var wg sync.WaitGroup
	for range at {
		wg.Go(func() {
			j := job(bob)
			j.Size, j.Committed = int64(len(text)), committed
			j.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
			for range jobs {
				if got := client.Deliver(b.Context(), j); got[0].Outcome != Done {
					b.Error(got)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "mails/s")
}

// BenchmarkDeliver: mails of 4 KiB from 20 goroutines over 20 connections.
func BenchmarkDeliver(b *testing.B) {
	b.Run("sink", func(b *testing.B) { benchmarkDeliver(b, newSink(b).address, nil) })
	b.Run("sink, committed",
		func(b *testing.B) { benchmarkDeliver(b, newSink(b).address, func() error { return nil }) })
	b.Run("smtp-sink", func(b *testing.B) { benchmarkDeliver(b, "unix:"+startSink(b), func() error { return nil }) })
}
