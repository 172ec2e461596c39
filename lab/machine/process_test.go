package machine

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
)

func TestProcess(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		needs.Skip(t, err)
	}
	address := needs.FreeAddress()
	p, err := Start(Task{Program: shell, Args: []string{"-c", "echo these are my last words; exit 3"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Listens(t.Context(), "tcp", address); err == nil ||
		!strings.Contains(err.Error(), "these are my last words") {
		t.Error(err)
	}
	p.Stop()
	p, err = Start(Task{Program: shell, Args: []string{"-c", "exec sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Listens(ended, "tcp", address); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p.Stop()
	select {
	case <-p.Exited:
	default:
		t.Error("it still runs")
	}
	if _, err := Start(Task{Program: "no-such-program"}); err == nil {
		t.Error("started")
	}
	if _, err := Find("no-such-program"); err == nil {
		t.Error("found")
	}
}

func TestLastWords(t *testing.T) {
	w := &lastWords{}
	for range 1000 {
		w.Write([]byte("something\n"))
	}
	w.Write([]byte("the end\n"))
	if text := w.String(); len(text) > 2<<10 || !strings.HasSuffix(text, "something\nthe end") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
