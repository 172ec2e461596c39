package machine

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// TestFamily: a process and the child that it waits for. What the child has spent counts, and a process that does not
// exist has spent nothing.
func TestFamily(t *testing.T) {
	shell, err := Find("sh")
	if err != nil {
		needs.Skip(t, err)
	}
	work := "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo $$; read end"
	p, err := Start(Task{Program: shell, Talks: true, Args: []string{"-c", shell + " -c '" + work + "'; echo"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	out := bufio.NewReader(p.Out)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	got := Family(p.Pid)
	if !slices.Equal(got, []int{p.Pid, child}) {
		t.Errorf("%d has the family %v, want its child %d", p.Pid, got, child)
	}
	if spent, alone := Spent(got...), Spent(p.Pid, -1); spent < 2*time.Second/userHZ || spent <= alone {
		t.Errorf("the family has spent %s, the parent alone %s", spent, alone)
	}
	fmt.Fprintln(p.In, "end")
	if _, err := out.ReadString('\n'); err != nil { // the parent's own line
		t.Fatal(err)
	}
	if got := Family(p.Pid); slices.Contains(got, child) {
		t.Errorf("the child has ended, and the family is %v", got)
	}
}
