// A Lua 5.1 for Python: values cross as strings of bytes (one letter each), numbers, booleans, nothing, and references.
//
// The C interface of Lua is called directly. The conversions of the package that carries it are not used: they read
// strings as UTF-8, and cut whole numbers to 32 bits.
const REGISTRY = -10000, ALL = -1;
const [NIL, BOOLEAN, , NUMBER, STRING] = [0, 1, 2, 3, 4];

class LuaError extends Error {}

// A table or a function that Lua keeps until it is dropped.
class Reference {
  constructor(number) {
    this.number = number;
  }
}

export async function lua(wasm) {
  await import("./wasmoon/index.js"); // a script that leaves its exports in the global object
  const { module } = await globalThis["wasmoon-lua5"]["1"].LuaApi.initialize(wasm);
  return new Lua(module);
}

class Lua {
  constructor(module) {
    this.c = module;
    this.state = module._luaL_newstate();
    this.room = module._malloc(4);
    module._luaL_openlibs(this.state);
  }

  // Compile a text; what runs it is a reference.
  compile(source) {
    const at = this.#copied(source), name = this.#copied("=(scripts)\0");
    const failed = this.c._luaL_loadbuffer(this.state, at, source.length, name);
    this.c._free(at);
    this.c._free(name);
    if (failed) this.#raise();
    return this.#kept(this.state);
  }

  // A function of Lua that calls one of JavaScript, which is given and answers values.
  expose(called) {
    const pointer = this.c.addFunction((state) => {
      const given = this.#taken(state, 0);
      this.#push(state, called(...given));
      return 1;
    }, "ii");
    this.c._lua_pushcclosure(this.state, pointer, 0);
    return this.#kept(this.state);
  }

  // Call what a reference is for, with values; the answer is a list of values.
  call(reference, ...args) {
    const { c, state } = this, top = c._lua_gettop(state);
    c._lua_checkstack(state, args.length + 1);
    c._lua_rawgeti(state, REGISTRY, reference.number);
    for (const one of args) this.#push(state, one);
    if (c._lua_pcall(state, args.length, ALL, 0)) this.#raise();
    const found = this.#taken(state, top);
    c._lua_settop(state, top);
    return found;
  }

  drop(reference) {
    this.c._luaL_unref(this.state, REGISTRY, reference.number);
  }

  // What lies on top of the stack, taken from there.
  #kept(state) {
    return new Reference(this.c._luaL_ref(state, REGISTRY));
  }

  #copied(text) {
    const at = this.c._malloc(text.length + 1), heap = this.c.HEAPU8;
    for (let place = 0; place < text.length; place++) heap[at + place] = text.charCodeAt(place);
    return at;
  }

  #push(state, value) {
    const { c } = this;
    if (value === undefined || value === null) c._lua_pushnil(state);
    else if (typeof value === "string") {
      const at = this.#copied(value);
      c._lua_pushlstring(state, at, value.length);
      c._free(at);
    } else if (typeof value === "number") c._lua_pushnumber(state, value);
    else if (typeof value === "boolean") c._lua_pushboolean(state, value ? 1 : 0);
    else c._lua_rawgeti(state, REGISTRY, value.number);
  }

  // What lies on the stack above a place.
  #taken(state, above) {
    const count = this.c._lua_gettop(state) - above;
    return Array.from({ length: count }, (_, index) => this.#value(state, above + index + 1));
  }

  #value(state, place) {
    const { c } = this;
    switch (c._lua_type(state, place)) {
      case NIL: return undefined;
      case BOOLEAN: return c._lua_toboolean(state, place) !== 0;
      case NUMBER: return c._lua_tonumber(state, place);
      case STRING: return this.#text(state, place);
      default:
        c._lua_pushvalue(state, place);
        return this.#kept(state);
    }
  }

  #text(state, place) {
    const at = this.c._lua_tolstring(state, place, this.room), heap = this.c.HEAPU8;
    const length = new DataView(heap.buffer).getUint32(this.room, true);
    let text = "";
    for (let start = at; start < at + length; start += 8192) {
      text += String.fromCharCode(...heap.subarray(start, Math.min(start + 8192, at + length)));
    }
    return text;
  }

  #raise() {
    const words = this.#text(this.state, -1);
    this.c._lua_settop(this.state, -2);
    throw new LuaError(words);
  }
}
