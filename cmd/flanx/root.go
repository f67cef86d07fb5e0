package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flanx/cmd/internal/version"
)

// newRoot puts the subcommands together.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "flanx",
		Short:         "Show, try and measure the flanx overlay network",
		Version:       version.String(),
		Args:          noSuchCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true, // an error message is not helped by a page of flags below it
		SilenceErrors: true, // run prints them
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w: %w; see \"%s --help\"", errUsage, err, cmd.CommandPath())
	})
	root.AddCommand(newDemo(), newBench(), newReplay(), newEtcd())
	return root
}

// noSuchCommand refuses what is left when no subcommand fits.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2 // edits, cobra's default
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(" (did you mean %s?)", strings.Join(near, " or "))
	}
	return fmt.Errorf("%w: unknown command %q%s; see \"flanx --help\"", errUsage, args[0], hint)
}

// noArguments is for subcommands that take flags only.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s takes no argument %q; see \"%[2]s --help\"", errUsage, cmd.CommandPath(), args[0])
}
