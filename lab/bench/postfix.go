//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"text/template"

	"weir/internal/postfix"
	"weir/lab/machine"
	"weir/lab/peers"
)

// filled executes the template of a peer's configuration.
func filled(text string, values any) string {
	var b strings.Builder
	check(try(template.New("").Option("missingkey=error").Parse(text)).Execute(&b, values))
	return b.String()
}

// startPostfix starts a Postfix that relays to a sink, and returns its address. Its queue is in the folder.
func (t *trial) startPostfix(folder, sink string, sessions int) string {
	host, port, err := net.SplitHostPort(sink)
	check(err)
	main := map[string]string{}
	for line := range strings.Lines(filled(peers.PostfixMain,
		map[string]any{"Server": fmt.Sprintf("[%s]:%s", host, port), "Sessions": sessions})) {
		if name, value, found := strings.Cut(line, " = "); found && !strings.HasPrefix(line, "#") {
			main[name] = strings.TrimSpace(value)
		}
	}
	p := try(postfix.Run(postfix.Options{Main: main, Relay: sink, Folder: folder}))
	t.cleanup(func() { _ = p.Stop() })
	return p.Addr
}

// An smtpSink is Postfix' smtp-sink, which takes every mail and counts.
type smtpSink struct {
	address string
	count   atomic.Int64
}

func (t *trial) startSink() *smtpSink {
	s := &smtpSink{address: try(machine.FreeAddress("127.0.0.1"))}
	args := []string{"-c", "-m", "1000", s.address, "1000"}
	if os.Geteuid() == 0 {
		args = append([]string{"-u", "nobody"}, args...)
	}
	p := try(machine.Start(machine.Task{Program: program("smtp-sink"), Args: args, Talks: true}))
	t.cleanup(p.Kill)
	go s.read(p.Out)
	if err := p.Listens(context.Background(), "tcp", s.address); err != nil {
		check(fmt.Errorf("smtp-sink: %w", err))
	}
	return s
}

// read reads what smtp-sink prints after every mail, which ends with a carriage return: sess=12 quit=3 mesg=456.
func (s *smtpSink) read(out io.Reader) {
	buf, rest := make([]byte, 64<<10), ""
	for {
		n, err := out.Read(buf)
		text := rest + string(buf[:n])
		last := strings.LastIndexByte(text, '\r')
		rest = text[last+1:]
		if i := strings.LastIndex(text[:last+1], "mesg="); i >= 0 {
			count, _ := strconv.ParseInt(strings.TrimSpace(text[i+len("mesg="):last]), 10, 64)
			s.count.Store(count)
		}
		if err != nil {
			return
		}
	}
}

// arrived waits until so many mails have arrived.
func arrived(count *atomic.Int64, n int64) {
	until(func() bool { return count.Load() >= n },
		func() error { return fmt.Errorf("%d mails have arrived, and not %d", count.Load(), n) })
}
