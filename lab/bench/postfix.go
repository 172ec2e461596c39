//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"time"

	"weir/lab/machine"
	"weir/lab/peers"
)

// patience is how long a peer may take to start, to stop, or to do the work of a round.
const patience = 3 * time.Minute

// A postfix is a Postfix of its own, in a folder of its own.
type postfix struct {
	address string
	hold    io.Closer // while it is open, Postfix runs
	ended   chan struct{}
}

// keepPostfix starts Postfix and stops it when its input ends, which is when nobody needs it any more, whatever became
// of who did.
const keepPostfix = `
trap '' INT HUP TERM
postfix -c "$1/etc" start </dev/null || exit 1
cat >/dev/null
pid=$(sed 's/ //g;1q' "$1/spool/pid/master.pid") && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
`

// startPostfix starts a Postfix that relays to a sink.
func startPostfix(folder, sink string, sessions int) (*postfix, error) {
	if _, err := program("postfix"); err != nil {
		return nil, err
	}
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("only root starts a Postfix: %w", errors.ErrUnsupported)
	}
	folder = filepath.Join(folder, "postfix")
	for _, name := range []string{"", "etc", "spool", "data"} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.Mkdir(path, 0o755), os.Chmod(path, 0o755)); err != nil {
			return nil, err
		}
	}
	if out, err := exec.Command("chown", "postfix", filepath.Join(folder, "data")).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	listen, err := machine.FreeAddress("127.0.0.1")
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(sink)
	if err != nil {
		return nil, err
	}
	knows := struct {
		Folder, Listen, SinkHost, SinkPort string
		Sessions                           int
	}{folder, listen, host, port, sessions}
	for name, text := range map[string]string{"main.cf": peers.PostfixMain, "master.cf": peers.PostfixMaster} {
		t, err := template.New(name).Parse(text)
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := errors.Join(t.Execute(&b, knows),
			os.WriteFile(filepath.Join(folder, "etc", name), b.Bytes(), 0o644)); err != nil {
			return nil, err
		}
	}
	keeper := exec.Command("sh", "-c", keepPostfix, "keep", folder)
	hold, err := keeper.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := keeper.Start(); err != nil {
		return nil, err
	}
	p := &postfix{address: listen, hold: hold, ended: make(chan struct{})}
	go func() {
		keeper.Wait()
		close(p.ended)
	}()
	for end := time.Now().Add(patience); !greets(listen); time.Sleep(20 * time.Millisecond) {
		select {
		case <-p.ended:
			end = time.Time{}
		default:
		}
		if time.Now().After(end) {
			log, _ := os.ReadFile(filepath.Join(folder, "log"))
			p.stop()
			return nil, fmt.Errorf("a Postfix does not come up: %s", log)
		}
	}
	return p, nil
}

func (p *postfix) stop() {
	p.hold.Close()
	select {
	case <-p.ended:
	case <-time.After(patience):
	}
}

func greets(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	var code [3]byte
	_, err = io.ReadFull(c, code[:])
	_, _ = io.WriteString(c, "QUIT\r\n")
	_, _ = io.Copy(io.Discard, c)
	return err == nil && string(code[:]) == "220"
}

// A smtpSink is a smtp-sink, which takes every mail and counts.
type smtpSink struct {
	*machine.Process
	address string
	count   atomic.Int64

	mu   sync.Mutex
	more sync.Cond
}

func startSink() (*smtpSink, error) {
	path, err := program("smtp-sink")
	if err != nil {
		return nil, err
	}
	address, err := machine.FreeAddress("127.0.0.1")
	if err != nil {
		return nil, err
	}
	args := []string{"-c", "-m", "1000", address, "1000"}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	p, err := machine.Start(machine.Task{Program: path, Args: args, Talks: true})
	if err != nil {
		return nil, err
	}
	s := &smtpSink{Process: p, address: address}
	s.more.L = &s.mu
	go s.read(p.Out)
	if err := p.Await(context.Background(), func() bool { return greets(address) }); err != nil {
		p.Kill()
		return nil, fmt.Errorf("smtp-sink: %w", err)
	}
	return s, nil
}

// read reads what smtp-sink says whenever something has come: sess=12 quit=3 mesg=456, and a carriage return.
func (s *smtpSink) read(out io.Reader) {
	buf, rest := make([]byte, 64<<10), ""
	for {
		n, err := out.Read(buf)
		text := rest + string(buf[:n])
		last := strings.LastIndexByte(text, '\r')
		rest = text[last+1:]
		if i := strings.LastIndex(text[:last+1], "mesg="); i >= 0 {
			count, _ := strconv.ParseInt(strings.TrimSpace(text[i+len("mesg="):last]), 10, 64)
			s.mu.Lock()
			s.count.Store(count)
			s.more.Broadcast()
			s.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// await waits until so many mails have come.
func (s *smtpSink) await(n int64) error {
	late := time.AfterFunc(patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.more.Broadcast()
	})
	defer late.Stop()
	end := time.Now().Add(patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.count.Load() < n {
		if !time.Now().Before(end) {
			return fmt.Errorf("%d mails have arrived, and not %d", s.count.Load(), n)
		}
		s.more.Wait()
	}
	return nil
}
