"""Who a request comes from: authenticators, sessions and what they sign with."""

from gateway.auth.base import Authenticator, unauthorized
from gateway.auth.basic import SimpleAuthenticator
from gateway.domain.user import User

__all__ = ("Authenticator", "SimpleAuthenticator", "User", "unauthorized")
