"""A tensor followed to the hidden state through the operations that make it: a small program for each shape of code."""

from small_programs import assumed, codes, kinds, reader, step, tensor

from tracer.lineage.definitions import Bridge, Wanted


def test_projection_split_norm_and_rotation_each_stand_on_the_way() -> None:
    path = tensor(
        """
        class Layer:
            def forward(self, positions, x):
                qkv = self.qkv_proj(x)
                q, k, v = qkv.split([1, 2, 2], dim=-1)
                q = q.view(-1, 4, 8)
                q = self.q_norm(q)
                kernel(q, k, v)
        """
    )
    assert codes(path) == [
        "x",
        "self.qkv_proj(x)",
        "qkv.split([1, 2, 2], dim=-1)",
        "q.view(-1, 4, 8)",
        "self.q_norm(q)",
        "q",
    ]
    assert not assumed(path)


def test_calls_inside_one_expression_are_told_from_the_inside_out() -> None:
    path = tensor(
        """
        class Layer:
            def forward(self, x):
                kernel(self.q_norm(self.q_proj(x).view(2, 3)).transpose(1, 2))
        """
    )
    assert codes(path)[1:3] == ["self.q_proj(x)", "self.q_norm(self.q_proj(x).view(2, 3))"]


def test_a_known_function_proves_which_argument_becomes_which_result() -> None:
    source = """
    def rotate(a, b, cos):
        a2 = a * cos
        b2 = b * cos
        return {returned}
    class Layer:
        def forward(self, x, cos):
            q = self.q_proj(x)
            k = self.k_proj(x)
            q, k = rotate(q, k, cos)
            kernel(q)
    """
    straight = tensor(source.replace("{returned}", "a2, b2"))
    crossed = tensor(source.replace("{returned}", "b2, a2"))
    assert ("self.q_proj(x)" in codes(straight), "self.k_proj(x)" in codes(straight)) == (True, False)
    assert ("self.q_proj(x)" in codes(crossed), "self.k_proj(x)" in codes(crossed)) == (False, True)
    assert not assumed(straight)


def test_an_unknown_function_with_several_results_is_assumed_by_name() -> None:
    path = tensor(
        """
        class Layer:
            def forward(self, positions, x):
                q = self.q_proj(x)
                k = self.k_proj(x)
                q, k = self.rotary_emb(positions, q, k)
                kernel(q)
        """
    )
    assert assumed(path) == [("self.rotary_emb(positions, q, k)", "same_name")]
    assert "self.q_proj(x)" in codes(path)


def test_a_generator_over_a_tuple_keeps_positions() -> None:
    path = tensor(
        """
        class Layer:
            def forward(self, x):
                a, b = self.a_proj(x), self.b_proj(x)
                p, q = (t.reshape(-1, 4) for t in (a, b))
                kernel(q)
        """
    )
    assert "self.b_proj(x)" in codes(path)
    assert "self.a_proj(x)" not in codes(path)


def test_sizes_are_no_data() -> None:
    path = tensor(
        """
        class Layer:
            def forward(self, x, y):
                q = self.q_proj(y)
                q = q.view(x.shape)
                kernel(q)
        """
    )
    assert path.steps[0].place.code != "x"  # y, not the x whose shape is read


def test_a_helper_of_the_same_object_is_told_a_foreign_one_only_crossed() -> None:
    source = """
    class Norm:
        def forward(self, t):
            u = t * 2
            return u
    class Layer:
        def __init__(self):
            self.norm = Norm()
        def prepare(self, h):
            q = self.q_proj(h)
            return q
        def forward(self, x):
            q = self.prepare(x)
            q = self.norm(q)
            kernel(q)
    """
    path = tensor(source)
    assert codes(path) == ["x", "x", "h", "self.q_proj(h)", "q", "self.prepare(x)", "self.norm(q)", "q"]


def test_what_goes_through_memory_is_a_link_of_its_own_that_says_so() -> None:
    source = """
    class Layer:
        def forward(self, x):
            k = self.k_proj(x)
            self.pool.write(k)
            cache, _ = self.pool.read()
            kernel(cache)
    """
    read = Wanted("pkg.one", ("Layer.forward",), "cache, _ = HERE", None)
    write = Wanted("pkg.one", ("Layer.forward",), "self.pool.write(HERE)", None)
    bridge = Bridge(read, 0, write, "lineage.bridge_cache")
    path = reader({"pkg.one": source}, "Layer.forward", argument="q", position=0, bridges=(bridge,)).path("q")
    assert codes(path) == ["x", "self.k_proj(x)", "k", "self.pool.read()", "cache"]
    assert kinds(path)[2] == "bridge"
    assert assumed(path) == [("self.pool.read()", "bridge_cache")]


def test_a_branch_that_puts_something_else_there_is_told() -> None:
    path = tensor(
        """
        class Layer:
            def forward(self, x, paged):
                k = self.k_proj(x)
                if paged is not None:
                    k = self.cache
                kernel(k)
        """
    )
    assert "self.k_proj(x)" in codes(path)
    assert [(o.place.code, o.when) for o in step(path, "k").others] == [("self.cache", ("paged is not None",))]
