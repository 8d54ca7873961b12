"""Random JSON Schemas, each with instances that validate, in the form that erne writes: members in the schema's order."""
import json


def scalar(random):
    """(schema, a function that makes a valid instance)"""
    kind = random.randrange(9)
    if kind == 0:
        return {"type": "string"}, lambda: random.choice(["", "a b", "你好\n", 'say "no"', "😀\\", "x" * 40])
    if kind == 1:
        low = random.randrange(4)
        high = low + random.randrange(6)
        return ({"type": "string", "minLength": low, "maxLength": high},
                lambda: "".join(random.choice("aé好😀\t") for _ in range(random.randint(low, high))))
    if kind == 2:
        low = random.randint(-2000, 2000)
        high = low + random.randrange(3000)
        return {"type": "integer", "minimum": low, "maximum": high}, lambda: random.randint(low, high)
    if kind == 3:
        low = random.randint(-50, 50)
        high = low + random.randint(1, 90)
        return ({"type": "number", "exclusiveMinimum": low, "maximum": high},
                lambda: random.choice([high, round(random.uniform(low + 0.01, high - 0.01), 3)]))
    if kind == 4:
        values = random.sample(["red", "blue", 1, 2.5, True, None, "赤", {"a": 1}, [1, 2]], random.randint(1, 5))
        return {"enum": values}, lambda: random.choice(values)
    if kind == 5:
        return ({"type": "string", "pattern": "^[A-Z]{2}-\\d{2,4}$"},
                lambda: "AZ-" + str(random.randint(10, 9999)))
    if kind == 6:
        form = random.choice(["date", "uuid", "ipv4", "email"])
        instance = {"date": "2024-11-30", "uuid": "00112233-4455-6677-8899-aabbccddeeff", "ipv4": "10.0.255.1",
                    "email": "who@example.org"}[form]
        return {"type": "string", "format": form}, lambda: instance
    if kind == 7:
        return {"type": ["boolean", "null"]}, lambda: random.choice([True, False, None])
    return {"type": "number"}, lambda: random.choice([0, -1.5, 2e-7, 123456789])


def array(random, depth):
    item, make = schema(random, depth - 1)
    low = random.randrange(3)
    high = low + random.randrange(4)
    return ({"type": "array", "items": item, "minItems": low, "maxItems": high},
            lambda: [make() for _ in range(random.randint(low, high))])


def object_(random, depth):
    names = random.sample(["id", "name", "标题", "a b", "x-y", "tags", "value"], random.randint(1, 4))
    members = {name: schema(random, depth - 1) for name in names}
    required = [name for name in names if random.random() < 0.6]
    described = {"type": "object", "properties": {name: members[name][0] for name in names}, "required": required}
    open_ = random.random() < 0.3
    described["additionalProperties"] = {"type": "integer"} if open_ else False

    def make():
        value = {name: members[name][1]() for name in names if name in required or random.random() < 0.5}
        if open_ and random.random() < 0.5:
            value["extra"] = random.randrange(100)
        return value
    return described, make


def union(random, depth):
    ways = [schema(random, depth - 1) for _ in range(random.randint(1, 3))]
    return {"anyOf": [way[0] for way in ways]}, lambda: random.choice(ways)[1]()


def tree(random):
    """A schema that refers to itself; the caller puts it at the root."""
    def make(depth=3):
        value = {"v": random.randrange(10)}
        if depth and random.random() < 0.7:
            value["kids"] = [make(depth - 1) for _ in range(random.randrange(3))]
        return value
    node = {"type": "object", "properties": {"v": {"type": "integer", "minimum": 0},
                                             "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["v"], "additionalProperties": False}
    return {"$defs": {"node": node}, "$ref": "#/$defs/node"}, make


def schema(random, depth):
    if depth == 0:
        return scalar(random)
    return random.choice([array, object_, union])(random, depth)


def spelled(random, value):
    """As json.dumps writes it, in one of the layouts that are allowed."""
    layout = random.choice([{"separators": (",", ":")}, {}, {"indent": 2}])
    return json.dumps(value, ensure_ascii=False, **layout)
