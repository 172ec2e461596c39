package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: testreport go test -json ...")
		os.Exit(2)
	}
	start := time.Now()
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	r := newReport(os.Stdout)
	r.read(out)
	if err := cmd.Wait(); err != nil && len(r.failures) == 0 {
		r.failed("go test", err.Error())
	}
	if !r.end(time.Since(start)) {
		os.Exit(1)
	}
}
