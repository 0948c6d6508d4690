// Command reference writes the reference pages of the command line.
package main

import (
	"github.com/ringmaster-project/ringmaster/cmd/ringmaster/reference"
	"github.com/ringmaster-project/ringmaster/demo/command"
)

func main() { reference.Main(command.New()) }
