//go:build unix

package docstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/markdown"
	"weir/internal/testkit/needs"
)

// TestForeignModule makes a module of its own as docs/go.md says, with the first program of that page, and asks it
// until it refuses. Modules come from the cache: what weir is built with is there, and nothing else may be needed.
func TestForeignModule(t *testing.T) {
	shell := needs.Program(t, "sh", "every Unix has it")
	program, build := foreign(t)
	base, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	folder := filepath.Join(temp, "shop")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	// weir stays where it is: in another folder all of it would be compiled again.
	const beside = "weir=../weir"
	if strings.Count(build.Text, beside) != 1 {
		t.Fatalf("%s: weir is not in %s", build.At(), beside)
	}
	commands := strings.Replace(build.Text, beside, "'weir="+base+"'", 1)
	const written = "127.0.0.1:8080"
	if strings.Count(program.Text, written) != 1 {
		t.Fatalf("%s: the program does not listen on %s", program.At(), written)
	}
	address := needs.FreeAddress()
	sums, err := os.ReadFile(filepath.Join(base, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": strings.ReplaceAll(program.Text, written, address),
		"go.sum":  string(sums), // else go get would ask for them on the web
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	made := exec.CommandContext(ctx, shell, "-e", "-c", commands)
	made.Dir = folder
	made.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off", "GOFLAGS=-buildvcs=false")
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build.At(), err, out)
	}

	var log strings.Builder
	run := exec.CommandContext(ctx, filepath.Join(folder, "shop"))
	run.Stdout, run.Stderr = &log, &log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = run.Process.Kill()
		_ = run.Wait()
		if t.Failed() {
			t.Logf("the program says: %s", &log)
		}
	}()
	needs.Wait(t, "the program listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		_ = c.Close()
		return true
	})
	sixthIsRefused(ctx, t, "http://"+address+"/")
}

// foreign returns the first program of docs/go.md, and the commands below it.
func foreign(t *testing.T) (program, build markdown.Block) {
	t.Helper()
	for _, p := range pages(t) {
		if p.Path != "docs/go.md" {
			continue
		}
		for i, b := range p.Blocks {
			if b.Is("go", "") && i+1 < len(p.Blocks) && p.Blocks[i+1].Is("sh", "") {
				return b, p.Blocks[i+1]
			}
		}
	}
	t.Fatal("docs/go.md has no program with commands below it")
	return markdown.Block{}, markdown.Block{}
}

// sixthIsRefused asks six times for an account. A new window may begin meanwhile, and admit the sixth: then it tries
// with another account, ten times at most.
func sixthIsRefused(ctx context.Context, t *testing.T, url string) {
	t.Helper()
	for account := range 10 {
		var last *http.Response
		for i := 1; i <= 6; i++ {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Api-Key", fmt.Sprint("account-", account))
			if last, err = http.DefaultClient.Do(r); err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(last.Body)
			_ = last.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if i < 6 && (last.StatusCode != http.StatusOK || string(body) != "hello\n") {
				t.Fatalf("request %d: %s %q", i, last.Status, body)
			}
		}
		if last.StatusCode == http.StatusOK {
			continue
		}
		if last.StatusCode != http.StatusTooManyRequests || last.Header.Get("Retry-After") == "" {
			t.Fatalf("the sixth: %s %v", last.Status, last.Header)
		}
		return
	}
	t.Fatal("the sixth request is admitted")
}
