// Command wat assembles WebAssembly text into a module: "wat in.wat out.wasm". It knows what the programs in this
// repository use: functions, one memory, exports, and folded instructions of version 1 on integers. So that generated
// files can be made and compared with Go alone.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wat:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: wat in.wat out.wasm")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	module, err := assemble(string(text))
	if err != nil {
		return fmt.Errorf("%s:%w", args[0], err)
	}
	return os.WriteFile(args[1], module, 0o644)
}
