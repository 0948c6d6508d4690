package main

import (
	"fmt"
	"go/constant"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// load type-checks packages of the repository as they are on Linux, without their tests.
func load(root string, env []string, patterns ...string) ([]*types.Package, string, error) {
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps | packages.NeedExportFile | packages.NeedModule,
		Dir:  root, Env: append(env, "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0"),
	}, patterns...)
	if err != nil {
		return nil, "", fmt.Errorf("loading %v: %w", patterns, err)
	}
	var public []*types.Package
	module := ""
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, "", fmt.Errorf("loading %s: %w", p.PkgPath, p.Errors[0])
		}
		if p.Module != nil {
			module = p.Module.Path
		}
		if p.Name != "main" && !isInternal(p.PkgPath) {
			public = append(public, p.Types)
		}
	}
	if len(public) == 0 {
		return nil, "", fmt.Errorf("loading %v: no public packages found", patterns)
	}
	return public, module, nil
}

func isInternal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// describe lists the exported names of the packages, each on a sorted line. A line that disappears is an incompatible change,
// a new line is not: an addition that breaks users' code, such as a method of an interface, also changes another line.
func describe(module string, all ...*types.Package) []string {
	var lines []string
	for _, p := range all {
		d := &describer{module: module, in: p}
		scope := p.Scope()
		for _, name := range scope.Names() {
			if object := scope.Lookup(name); object.Exported() {
				d.object(object)
			}
		}
		lines = append(lines, d.lines...)
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// describer describes one package.
type describer struct {
	module string
	in     *types.Package
	lines  []string
}

func (d *describer) add(format string, args ...any) {
	d.lines = append(d.lines, d.path(d.in)+": "+fmt.Sprintf(format, args...))
}

// path is a package's path, without the module's if it is ours.
func (d *describer) path(p *types.Package) string { return strings.TrimPrefix(p.Path(), d.module+"/") }

// text is a type without the names of parameters, which may change.
func (d *describer) text(t types.Type) string {
	return types.TypeString(unnamed(t), func(p *types.Package) string {
		if p == d.in {
			return ""
		}
		return d.path(p)
	})
}

func (d *describer) object(object types.Object) {
	switch o := object.(type) {
	case *types.Const:
		value := o.Val().ExactString()
		if o.Val().Kind() == constant.String {
			value = fmt.Sprintf("%q", constant.StringVal(o.Val()))
		}
		d.add("const %s %s = %s", o.Name(), d.text(o.Type()), value)
	case *types.Var:
		d.add("var %s %s", o.Name(), d.text(o.Type()))
	case *types.Func:
		d.add("func %s%s", o.Name(), d.signature(o))
	case *types.TypeName:
		d.typeName(o)
	}
}

func (d *describer) signature(f *types.Func) string {
	return strings.TrimPrefix(d.text(f.Type()), "func")
}

// typeName describes a type with its fields and methods.
func (d *describer) typeName(o *types.TypeName) {
	name := o.Name()
	if alias, ok := o.Type().(*types.Alias); ok {
		d.add("type %s%s = %s", name, d.parameters(alias.TypeParams()), d.text(alias.Rhs()))
		// Users reach a type of an internal package only under this name.
		if named, ok := types.Unalias(alias.Rhs()).(*types.Named); ok && named.Obj().Pkg() != nil && d.hidden(named.Obj()) {
			d.members(name, named)
		}
		return
	}
	if named, ok := o.Type().(*types.Named); ok {
		name += d.parameters(named.TypeParams())
		switch named.Underlying().(type) {
		case *types.Struct, *types.Interface:
		default:
			d.add("type %s %s", name, d.text(named.Underlying()))
		}
		d.members(o.Name(), named)
	}
}

// hidden reports whether users cannot name a type of ours themselves.
func (d *describer) hidden(o *types.TypeName) bool {
	return strings.HasPrefix(o.Pkg().Path(), d.module+"/") && (isInternal(o.Pkg().Path()) || !o.Exported())
}

func (d *describer) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for p := range list.TypeParams() {
		all = append(all, p.Obj().Name()+" "+d.text(p.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// members describes the fields and methods of a type.
func (d *describer) members(name string, named *types.Named) {
	switch under := named.Underlying().(type) {
	case *types.Struct:
		d.add("type %s%s struct", name, d.parameters(named.TypeParams()))
		d.fields(name, under)
	case *types.Interface:
		d.interfaceOf(name, under)
		return
	}
	for selection := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		f, ok := selection.Obj().(*types.Func)
		if !ok || !f.Exported() || inherited(named, selection.Index()) {
			continue
		}
		receiver := name
		if types.NewMethodSet(named).Lookup(f.Pkg(), f.Name()) == nil {
			receiver = "*" + name
		}
		d.add("method (%s) %s%s", receiver, f.Name(), d.signature(f))
	}
}

// inherited reports whether a method comes from an exported embedded field, which has a line of its own.
func inherited(named *types.Named, index []int) bool {
	under, ok := named.Underlying().(*types.Struct)
	for _, i := range index[:len(index)-1] {
		if !ok {
			return false
		}
		field := under.Field(i)
		if field.Exported() {
			return true
		}
		fieldType := field.Type()
		if pointer, isPointer := fieldType.Underlying().(*types.Pointer); isPointer {
			fieldType = pointer.Elem()
		}
		under, ok = fieldType.Underlying().(*types.Struct)
	}
	return false
}

// fields describes the fields of a struct, with those that users reach through a type that they cannot name. The tags of
// API types are stored in clusters.
func (d *describer) fields(name string, structure *types.Struct) {
	for i := range structure.NumFields() {
		field, tag := structure.Field(i), structure.Tag(i)
		if tag != "" {
			tag = " `" + tag + "`"
		}
		switch {
		case field.Exported() && field.Embedded():
			d.add("type %s struct, embedded %s%s", name, d.text(field.Type()), tag)
		case field.Exported():
			d.add("type %s struct, %s %s%s", name, field.Name(), d.text(field.Type()), tag)
		case field.Embedded():
			inner := field.Type()
			if pointer, ok := inner.Underlying().(*types.Pointer); ok {
				inner = pointer.Elem()
			}
			if under, ok := inner.Underlying().(*types.Struct); ok {
				d.fields(name, under)
			}
		}
	}
}

// interfaceOf describes an interface. Its methods are named in its own line too: one more breaks those who implement it,
// unless nobody else can.
func (d *describer) interfaceOf(name string, t *types.Interface) {
	var methods []string
	sealed := false
	for method := range t.ExplicitMethods() {
		if !method.Exported() {
			sealed = true
			continue
		}
		methods = append(methods, method.Name())
		d.add("type %s interface, %s%s", name, method.Name(), d.signature(method))
	}
	for embedded := range t.EmbeddedTypes() {
		methods = append(methods, "embeds "+d.text(embedded))
	}
	if sealed {
		d.add("type %s interface { unexported methods }", name)
		return
	}
	slices.Sort(methods)
	d.add("type %s interface { %s }", name, strings.Join(methods, ", "))
}

// unnamed is a type without the names of parameters.
func unnamed(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Pointer:
		return types.NewPointer(unnamed(t.Elem()))
	case *types.Slice:
		return types.NewSlice(unnamed(t.Elem()))
	case *types.Array:
		return types.NewArray(unnamed(t.Elem()), t.Len())
	case *types.Map:
		return types.NewMap(unnamed(t.Key()), unnamed(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), unnamed(t.Elem()))
	case *types.Signature:
		var parameters []*types.TypeParam
		for p := range t.TypeParams().TypeParams() {
			parameters = append(parameters, p)
		}
		if len(parameters) > 0 {
			return t // a type parameter belongs to one signature only
		}
		return types.NewSignatureType(nil, nil, nil, unnamedTuple(t.Params()), unnamedTuple(t.Results()), t.Variadic())
	}
	return t
}

func unnamedTuple(tuple *types.Tuple) *types.Tuple {
	var all []*types.Var
	for v := range tuple.Variables() {
		all = append(all, types.NewParam(v.Pos(), v.Pkg(), "", unnamed(v.Type())))
	}
	return types.NewTuple(all...)
}
