package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"weir/store"
)

// childFolder, in the environment, makes the test binary a child that writes bans or mail into that folder until it is
// killed.
const childFolder = "WEIR_STORE_CHILD"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childFolder); folder != "" {
		child := writeForEver
		if os.Getenv("WEIR_STORE_MAIL") != "" {
			child = mailForEver
		}
		if err := child(folder, os.Getenv("WEIR_STORE_ROUND")); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver writes bans from several goroutines, so that commits are grouped, and tells each on its standard output
// after it was committed.
func writeForEver(folder, round string) error {
	s, err := Open(context.Background(), Options{Folder: folder})
	if err != nil {
		return err
	}
	var told sync.Mutex
	failed := make(chan error)
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				b := banOf(fmt.Sprintf("%s-%d-%d", round, w, i))
				gone := banOf(fmt.Sprintf("%s-%d-gone", round, w))
				err := s.Bans().Put(context.Background(), b, gone) // one transaction
				if err == nil {
					err = s.Bans().Remove(context.Background(), gone.BanKey)
				}
				if err == nil {
					told.Lock()
					_, err = fmt.Println(b.Client)
					told.Unlock()
				}
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

// A process that is killed while it writes leaves everything that it was told to be safe.
func TestKilledWhileWriting(t *testing.T) {
	folder := t.TempDir()
	acknowledged := map[string]bool{}
	for round := range 6 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childFolder+"="+folder, fmt.Sprintf("WEIR_STORE_ROUND=%d", round))
		var said strings.Builder
		child.Stderr = &said
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil { // what was not told whole was not told
				break
			}
			acknowledged[strings.TrimSpace(line)] = true
			if n == 20+37*round {
				if err := child.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = child.Wait()
		if said.Len() > 0 {
			t.Fatalf("the child says: %s", &said)
		}

		s, err := Open(t.Context(), Options{Folder: folder})
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Bans().List(t.Context(), epoch)
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]store.Ban{}
		for _, b := range all {
			there[b.Client] = b
		}
		for id := range acknowledged {
			want := banOf(id)
			if got := there[id]; !got.Equal(&want) {
				t.Fatalf("round %d: %s was acknowledged; there is %+v", round, id, got)
			}
		}
		// One call of each goroutine may have been under way.
		if extra := len(there) - len(acknowledged); extra > 2*4*(round+1) {
			t.Errorf("round %d: %d bans that nobody was told of", round, extra)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d bans were acknowledged, and all are there", len(acknowledged))
}
