// Command compose checks a file for Docker Compose with the code that Compose itself uses, its schema among it. It is a
// module of its own: what Compose needs is no business of weir's.
//
//	go run -C internal/checks/compose . FILE
//
// It prints the names of the services.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: compose FILE")
		os.Exit(2)
	}
	if err := check(os.Stdout, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(out io.Writer, file string) error {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithName("weir"))
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	for _, name := range project.ServiceNames() {
		fmt.Fprintln(out, name)
	}
	return nil
}
