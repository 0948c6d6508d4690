// Command docs writes the reference of the command line as Markdown.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra/doc"

	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/app"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: docs FOLDER")
		os.Exit(2)
	}
	command := app.New()
	command.DisableAutoGenTag = true // no dates: the same source makes the same files
	if err := doc.GenMarkdownTree(command, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
